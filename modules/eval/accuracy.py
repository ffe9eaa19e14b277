"""How many labels are predicted correctly."""

from jade.eval import DatasetEvaluation


class AccuracyEvaluation(DatasetEvaluation):
    def initialize(
        self,
        evaluate_on: str,
        n_samples: int | None = None,
        resample: bool = False,  # noqa: FBT001, FBT002 - a parameter in configuration files
        batch_size: int = 256,
    ):
        super().initialize(evaluate_on, n_samples, batch_size, resample)
        self.predict = self.require_trainer_method("predict")

    def evaluate_batch(self, data):
        return (self.predict(data["x"]) == data["y"]).float()

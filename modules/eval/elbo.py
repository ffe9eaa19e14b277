"""The variational lower bound, and its parts."""

import inspect

from jade.eval import DatasetEvaluation


class ErrorComponentsEvaluation(DatasetEvaluation):
    """The mean of each part of the loss over a dataset, logged as NAME/part."""

    def initialize(
        self,
        evaluate_on: str,  # name of the dataset on which the metric is evaluated
        n_samples: int | None = 2048,  # number of samples, null for all of them
        resample: bool = False,  # noqa: FBT001, FBT002 - whether to draw other samples each time
        batch_size: int = 256,
    ):
        super().initialize(evaluate_on, n_samples, batch_size, resample)
        self.compute = self.require_trainer_method("compute_loss_components")
        # A trainer may take the whole batch or, under the name x, the inputs only
        self.takes_x = list(inspect.signature(self.compute).parameters)[:1] == ["x"]

    def evaluate_batch(self, data):
        parts = self.compute(data["x"] if self.takes_x else data)
        if isinstance(parts, dict):
            return parts
        if isinstance(parts, tuple) and len(parts) == 2:
            return dict(zip(("reconstruction", "regularization"), parts, strict=True))
        raise TypeError(
            f"{self.name}: compute_loss_components must return a dictionary of losses, or the "
            f"reconstruction and the regularization loss, not {type(parts).__name__}."
        )


class ELBOEvaluation(ErrorComponentsEvaluation):
    """The negative variational lower bound: the sum of the parts of the loss (less is better)."""

    def evaluate_batch(self, data):
        return sum(super().evaluate_batch(data).values())

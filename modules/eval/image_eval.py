"""Pictures and what the model makes of them."""

import torch

from jade.eval import Evaluation


class ReconstructionEvaluation(Evaluation):
    def initialize(
        self,
        evaluate_on: str,  # name of the dataset the pictures come from
        n_pictures: int = 10,
        sample_images: bool = False,  # noqa: FBT001, FBT002 - show a sample instead of the mean
        resample: bool = False,  # noqa: FBT001, FBT002 - show other pictures each time
    ):
        self.dataset = self.datasets[evaluate_on]
        self.n_pictures = min(n_pictures, len(self.dataset))
        self.sample_images = sample_images
        self.resample = resample
        self.reconstruct = self.require_trainer_method("reconstruct")

    def evaluate(self):
        n = self.n_pictures
        indices = torch.randperm(len(self.dataset))[:n] if self.resample else torch.arange(n)
        x = torch.stack([self.dataset[int(index)]["x"] for index in indices])
        x = x.to(self.trainer.get_device())
        x_rec = self.reconstruct(x, sample_images=self.sample_images)
        return {"type": "figure", "value": self.draw(x.cpu(), x_rec.cpu())}

    def draw(self, x, x_rec):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(len(x), 2.4), layout="constrained")
        axes = figure.subplots(2, len(x), squeeze=False)
        for row, (title, pictures) in enumerate((("input", x), ("reconstruction", x_rec))):
            for axis, picture in zip(axes[row], pictures, strict=True):
                pixels = picture.permute(1, 2, 0).clamp(0, 1).numpy()
                axis.imshow(pixels, cmap="gray", vmin=0, vmax=1)
                axis.set_axis_off()
            axes[row][0].set_title(title, loc="left", fontsize=9)
        figure.suptitle(f"{self.name}, iteration {self.trainer.iterations}", fontsize=10)
        return figure

"""Evaluations that draw, that remember, and that show something."""

import os
import random
import time
from pathlib import Path

import torch

from jade.eval import DatasetEvaluation, Evaluation


class SquaredError(DatasetEvaluation):
    def evaluate_batch(self, data):
        return (self.trainer.net(data["x"]) - data["y"]).square().squeeze(1)


class Remembering(Evaluation):
    """Add up what was measured before; tell by a file that a measurement is under way."""

    def initialize(self):
        self.values = []
        self.generator = random.Random(3)
        self.add_attribute_to_store("values")
        self.mark = os.environ.get("JADE_FAULTS_MARK")

    def evaluate(self):
        if self.mark is not None:
            Path(self.mark).touch()
        weight = float(self.trainer.shift.weight.sum())
        self.values.append(weight + torch.rand(()).item() + self.generator.random())
        time.sleep(2 * self.trainer.pause_s)
        if self.mark is not None:
            Path(self.mark).unlink(missing_ok=True)
        return sum(self.values)


class WeightPicture(Evaluation):
    """Show the weights as a picture, and one of them as a text."""

    def evaluate(self):
        weights = self.trainer.shift.weight.detach().sigmoid().reshape(1, 2, 4)
        return {
            "picture": {"type": "image", "value": weights},
            "text": f"{float(weights.sum())!r} {torch.rand(()).item()!r}",
        }

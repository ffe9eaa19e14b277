"""A trainer with everything that going on exactly could forget."""

import os
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from jade.trainer import Trainer


class FragileTrainer(Trainer):
    def initialize(self):
        """Build a network with dropout, two optimizers, a scheduler, an average and a counter."""
        # Not parameters: the number of workers and the length of a step must decide nothing.
        num_workers = int(os.environ.get("JADE_FAULTS_WORKERS", "0"))
        self.pause_s = float(os.environ.get("JADE_FAULTS_PAUSE_S", "0.003"))
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
        self.shift = nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.other = torch.optim.SGD(self.shift.parameters(), lr=0.01, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2, gamma=0.5)
        self.generator = torch.Generator().manual_seed(4)
        self.average = torch.zeros(8)
        self.seen = 0
        self.longest_s = 0.0
        self.add_attribute_to_store("average")
        self.add_attribute_to_store("seen")
        self.train_loader = DataLoader(
            self.datasets["train"], batch_size=4, shuffle=True, num_workers=num_workers
        )

    def train_step(self, data):
        started = time.perf_counter()
        noise = torch.randn((), generator=self.generator) + random.random() + np.random.rand()
        output = self.net(data["x"]) + self.shift(data["x"]) + 0.01 * noise
        loss = (output - data["y"]).square().mean()
        self.add_loss_item("loss", loss)
        self.optimizer.zero_grad()
        self.other.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.other.step()
        self.average = 0.9 * self.average + 0.1 * data["x"].mean(dim=0)
        self.seen += len(data["x"])
        time.sleep(self.pause_s)
        self.longest_s = max(self.longest_s, time.perf_counter() - started)

    def on_epoch_end(self):
        self.scheduler.step()

    def on_end(self):
        if "JADE_FAULTS_STEP" in os.environ:
            Path(os.environ["JADE_FAULTS_STEP"]).write_text(str(self.longest_s))

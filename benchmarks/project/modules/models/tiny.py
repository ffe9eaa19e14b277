"""The trainer of the tiny network, with the times that the benchmarks ask for."""

import atexit
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks import tiny
from jade.trainer import Trainer


class TinyTrainer(Trainer):
    def initialize(self, own_loader: bool = False):
        """Build what the bare loop builds, in the same order."""
        self.net = tiny.build_network()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=tiny.LEARNING_RATE)
        dataset = self.datasets["train"]
        if own_loader:
            self.train_loader = self.make_loader(dataset, tiny.BATCH_SIZE, shuffle=True)
        else:
            self.train_loader = DataLoader(dataset, tiny.BATCH_SIZE, shuffle=True)
        self.stopwatch = tiny.Stopwatch()

    def on_start(self):
        self.stopwatch.start()

    def on_end(self):
        self.stopwatch.stop()

    def train_step(self, data):
        inputs, labels = data
        loss = nn.functional.cross_entropy(self.net(inputs), labels)
        self.add_loss_item("loss", loss)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class FirstStepTrainer(TinyTrainer):
    """Tell the time of the first step."""

    def train_step(self, data):
        print(time.time(), flush=True)
        os._exit(0)


class ResumedTrainer(TinyTrainer):
    """Train where that is asked for; elsewhere tell the time of the first step."""

    def train_step(self, data):
        if "JADE_BENCHMARK_TRAINS" in os.environ:
            super().train_step(data)
            return
        print(time.time(), flush=True)
        os._exit(0)


class TrialTrainer(TinyTrainer):
    """Write down when the first step of a trial was done, and when its process ended."""

    def initialize(self, own_loader: bool = False, number: int = 0):
        super().initialize(own_loader)

    def on_start(self):
        super().on_start()
        atexit.register(self.note, "end")

    def train_step(self, data):
        super().train_step(data)
        if self.iterations == 0:
            self.note("first step")

    @staticmethod
    def note(what):
        with Path(os.environ["JADE_BENCHMARK_TIMES"]).open("a") as file:
            file.write(f"{time.time()} {what}\n")


class MemoryTrainer(TinyTrainer):
    """Tell how much memory the whole run took."""

    def on_start(self):
        atexit.register(tiny.print_peak_memory)


class TalkativeTrainer(TinyTrainer):
    """Log many numbers at every step, and tell what a step takes: microseconds, wall and CPU."""

    NUM_SCALARS = 20

    def train_step(self, data):
        super().train_step(data)
        for number in range(self.NUM_SCALARS - 1):
            self.add_loss_item(f"number {number}", 0.1 * number)

    def on_end(self):
        super().on_end()
        for seconds in (self.stopwatch.wall, self.stopwatch.cpu):
            print(seconds / self.iterations * 1e6, flush=True)

"""The loops that are compared: each trains the same network on the same batches, and is timed."""

import contextlib
import csv
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import tiny
from jade.errors import ComponentError

PROJECT = Path(__file__).parent / "project"


@dataclass(frozen=True)
class Task:
    """What a contender is given: the digits, a number of epochs, and a folder to write into."""

    data: str
    epochs: int
    folder: str


Trained = tuple[nn.Module, tiny.Stopwatch]


def run_bare(task: Task) -> Trained:
    return tiny.train_bare(task.data, task.epochs)


def run_jade(task: Task, *, own_loader: bool = False) -> Trained:
    """Run JADE as its users do: CSV every 50 steps, checkpoint, and the progress line."""
    import jade

    os.chdir(PROJECT)
    os.environ["JADE_BENCHMARK_DATA"] = task.data
    finished = jade.train(
        "model.yml",
        "data.yml",
        epochs=task.epochs,
        seed=tiny.SEED,
        device="cpu",
        wandb="disabled",
        experiments_root=task.folder,
        log_loss_every=f"{tiny.LOG_EVERY} iterations",
        overrides={"model.params.own_loader": own_loader},
    )
    trainer: Any = finished.trainer
    return trainer.net, trainer.stopwatch


def run_jade_loader(task: Task) -> Trained:
    return run_jade(task, own_loader=True)


def run_lightning(task: Task, *, barebones: bool = False) -> Trained:
    """Run Lightning with its defaults (progress bar, log every 50 steps, checkpoints) or without.

    Its default logger is TensorBoard's where that is installed; CSV is what JADE writes, too.
    """
    from jade.torch_startup import import_torchvision

    # Lightning imports it by way of torchmetrics, and fails where only its operators are missing.
    with contextlib.suppress(ComponentError):
        import_torchvision()
    import lightning
    from lightning.pytorch.loggers import CSVLogger

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny.build_network()
            self.stopwatch = tiny.Stopwatch()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            inputs, labels = batch
            loss = nn.functional.cross_entropy(self.net(inputs), labels)
            if not barebones:
                self.log("loss", loss, prog_bar=True)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.net.parameters(), lr=tiny.LEARNING_RATE)

        def on_train_start(self) -> None:
            self.stopwatch.start()

        def on_train_end(self) -> None:
            self.stopwatch.stop()

    torch.manual_seed(tiny.SEED)
    module = Module()
    options: dict[str, Any] = {"max_epochs": task.epochs, "accelerator": "cpu"}
    if barebones:
        options |= {"barebones": True}
    else:
        options |= {
            "logger": CSVLogger(task.folder),
            "default_root_dir": task.folder,
            "log_every_n_steps": tiny.LOG_EVERY,
        }
    lightning.Trainer(**options).fit(module, tiny.make_loader(task.data))
    return module.net, module.stopwatch


def run_lightning_barebones(task: Task) -> Trained:
    return run_lightning(task, barebones=True)


def run_ignite(task: Task, *, with_output: bool = False) -> Trained:
    """Run Ignite's engine: alone, or with a CSV row every 50 steps and its progress bar."""
    from ignite.engine import Engine, Events

    torch.manual_seed(tiny.SEED)
    network = tiny.build_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=tiny.LEARNING_RATE)

    def step(_: Engine, batch: Any) -> float:
        inputs, labels = batch
        loss = nn.functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    engine = Engine(step)
    loader = tiny.make_loader(task.data)
    stopwatch = tiny.Stopwatch()
    with Path(task.folder, f"ignite-{os.getpid()}.csv").open("w") as file:
        if with_output:
            from ignite.handlers import ProgressBar

            writer = csv.writer(file)

            def write_row(engine: Engine) -> None:
                writer.writerow([engine.state.iteration, engine.state.output])
                file.flush()

            engine.add_event_handler(Events.ITERATION_COMPLETED(every=tiny.LOG_EVERY), write_row)
            ProgressBar().attach(engine, output_transform=lambda loss: {"loss": loss})
        stopwatch.start()
        engine.run(loader, max_epochs=task.epochs)
        stopwatch.stop()
    return network, stopwatch


def run_ignite_with_output(task: Task) -> Trained:
    return run_ignite(task, with_output=True)


CONTENDERS: dict[str, Callable[[Task], Trained]] = {
    "bare": run_bare,
    "jade": run_jade,
    "jade_loader": run_jade_loader,
    "lightning": run_lightning,
    "lightning_barebones": run_lightning_barebones,
    "ignite": run_ignite,
    "ignite_with_output": run_ignite_with_output,
}
PEERS = {"lightning": "lightning", "ignite": "pytorch-ignite"}


def is_installed(contender: str) -> bool:
    """Tell whether the package of a contender is here."""
    return importlib.util.find_spec(contender.partition("_")[0]) is not None or contender == "bare"

"""JADE: train and sweep PyTorch models from configuration files.

The public names are imported on first use, so that ``import jade`` loads neither torch nor wandb.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jade.api import test, train
    from jade.errors import (
        CheckpointError,
        ComponentError,
        ConfigError,
        DeviceError,
        JadeError,
        MissingDataError,
        NetworkError,
        NonFiniteLossError,
        RunInUseError,
        TrainingError,
        VariableError,
    )
    from jade.eval import DatasetEvaluation, Evaluation
    from jade.finished_run import FinishedRun
    from jade.loaded_model import LoadedModel, load_model
    from jade.loaded_run import LoadedRun, load_run
    from jade.loggers.base import Logger
    from jade.media import Media
    from jade.tester.single import FinishedTest
    from jade.trainer import Trainer

__version__ = "0.1.0"

_HOMES = {
    "Trainer": "jade.trainer",
    "Evaluation": "jade.eval",
    "DatasetEvaluation": "jade.eval",
    "Media": "jade.media",
    "Logger": "jade.loggers.base",
    "FinishedRun": "jade.finished_run",
    "FinishedTest": "jade.tester.single",
    "test": "jade.api",
    "train": "jade.api",
    "resume": "jade.api",
    "load_model": "jade.loaded_model",
    "LoadedModel": "jade.loaded_model",
    "load_run": "jade.loaded_run",
    "LoadedRun": "jade.loaded_run",
    "JadeError": "jade.errors",
    "ConfigError": "jade.errors",
    "VariableError": "jade.errors",
    "ComponentError": "jade.errors",
    "MissingDataError": "jade.errors",
    "DeviceError": "jade.errors",
    "CheckpointError": "jade.errors",
    "RunInUseError": "jade.errors",
    "NetworkError": "jade.errors",
    "TrainingError": "jade.errors",
    "NonFiniteLossError": "jade.errors",
}

__all__ = [
    "CheckpointError",
    "ComponentError",
    "ConfigError",
    "DatasetEvaluation",
    "DeviceError",
    "Evaluation",
    "FinishedRun",
    "FinishedTest",
    "JadeError",
    "LoadedModel",
    "LoadedRun",
    "Logger",
    "Media",
    "MissingDataError",
    "NetworkError",
    "NonFiniteLossError",
    "RunInUseError",
    "Trainer",
    "TrainingError",
    "VariableError",
    "load_model",
    "load_run",
    "resume",
    "test",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("nn", "eval", "trainer", "batch", "errors"):
        return importlib.import_module(f"jade.{name}")
    from jade.errors import suggest

    raise AttributeError(f"module 'jade' has no attribute {name!r}.{suggest(name, __all__)}")


def __dir__() -> list[str]:
    return [*__all__, "batch", "errors", "eval", "nn", "trainer", "__version__"]

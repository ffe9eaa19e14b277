"""Load a model file again: look into it, or build its trainer where the project never was."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from jade.assemble import choose_device
from jade.errors import ConfigError
from jade.model_file import ModelFile, unpack_sources
from jade.rebuild import Rebuilder, adopt_stored, ready
from jade.trainer import Trainer
from jade.user_modules import ModuleSet

SHOWN_FILES = 10


def load_model(path: str | Path, *, trust_code: bool = False) -> "LoadedModel":
    """Load a file that ``jade export`` has written; nothing of it is executed by that.

    Args:
        path: The file.
        trust_code: Whether ``trainer()`` may execute the code in the file.

    Raises:
        ConfigError: There is no such file, or it is not a model file.
        CheckpointError: It is damaged.
    """
    return LoadedModel(ModelFile(Path(path)), trust_code=trust_code)


class LoadedModel:
    """A trained model in one file: weights, configuration, code, and where they come from."""

    def __init__(self, file: ModelFile, *, trust_code: bool = False) -> None:
        self._file = file
        self._trusts_code = trust_code

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, nested, with variables as they were written."""
        return self._file.config

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The ``last`` metrics by name, those at the ``checkpoint``, and the ``best`` one."""
        return self._fact("metrics")

    @property
    def versions(self) -> Mapping[str, Any]:
        """The versions of JADE, of Python and of all packages that it was trained with."""
        return self._fact("versions")

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The run and the checkpoint that it is, the seed, and the commit of the code."""
        return self._fact("provenance")

    @cached_property
    def sources(self) -> dict[str, str]:
        """The code by file name; it can be read without being executed."""
        return {name: text.decode(errors="replace") for name, text in self._file.sources.items()}

    @cached_property
    def state(self) -> dict[str, Any]:
        """The state of the trainer; below ``modules`` stand the weights of all networks."""
        state: dict[str, Any] = self._file.load_state()["trainer"]
        return state

    def trainer(self, device: str = "cpu") -> Trainer:
        """Build the trainer with its own ``initialize``, and load the weights; it is in eval mode.

        No data is needed: a dataset that cannot be built here is replaced by something that has
        its size, and says what is wrong once a sample is asked for.

        Raises:
            ConfigError: That would execute code, and ``trust_code`` is false.
        """
        if not self._trusts_code:
            raise ConfigError(self._refusal())
        target = choose_device(device)
        content = self._file.load_state(target)
        trainer = self._rebuilder.build_trainer(target, self._rebuilder.datasets())
        state = content["trainer"]
        adopt_stored(trainer, state)
        trainer.load_networks(state)
        # Networks are complete now; optimizers, which have no place in the file, stay new.
        trainer.load_full_state(state, strict=False)
        return ready(trainer, content["clock"])

    def _refusal(self) -> str:
        names = sorted(self.sources)
        listed = "".join(f"\n  - {name}" for name in names[:SHOWN_FILES])
        rest = f"\n  - and {len(names) - SHOWN_FILES} more" if names[SHOWN_FILES:] else ""
        return (
            f"To build the trainer, the code in {self.path} has to be executed:{listed}{rest}\n"
            "Read it first: load_model(...).sources holds the text of each file. If you trust it: "
            "load_model(..., trust_code=True). The weights alone are in load_model(...).state."
        )

    @cached_property
    def _rebuilder(self) -> Rebuilder:
        # It stays until the process ends: tracebacks show lines of these files.
        folder = Path(tempfile.mkdtemp(prefix="jade-model-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        unpack_sources(self._file.sources, folder)
        return Rebuilder(self.config, folder, ModuleSet(folder), self._fact("samples"))

    def _fact(self, name: str) -> Mapping[str, Any]:
        fact: Mapping[str, Any] = self._file.facts.get(name) or {}
        return fact

    def __repr__(self) -> str:
        model = self.config["model"]["class"]
        origin = self.provenance
        return (
            f"LoadedModel({model} of run {origin.get('run_id')}, {origin.get('checkpoint')} "
            f"checkpoint of iteration {origin.get('iteration')}, {len(self.sources)} source files)"
        )

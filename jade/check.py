"""Find what would only fail once a run is being built, without building anything."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import torch

from jade.errors import ComponentError, ConfigError, closest, suggest
from jade.eval import DatasetEvaluation, Evaluation
from jade.resolve import Resolved
from jade.run_dir import check_writable
from jade.signatures import signature_of, takes_anything
from jade.stopping import parse_threshold
from jade.trainer import Trainer
from jade.warm_start import find_weights


def find_problems(resolved: Resolved) -> list[str]:
    """List what is wrong with settings, methods, names of datasets and architectures."""
    return [
        *_setting_problems(resolved),
        *_missing_methods(resolved),
        *_unknown_datasets(resolved),
        *_architecture_problems(resolved),
    ]


def _setting_problems(resolved: Resolved) -> Iterator[str]:
    settings = resolved.settings
    try:
        check_writable(Path(settings.experiments_root))
    except ConfigError as error:
        yield str(error)
    if settings.stop_when:
        try:
            parse_threshold(settings.stop_when)
        except ConfigError as error:
            yield str(error)
    # A run that is continued has its weights.
    if settings.load is not None and settings.resume is None:
        try:
            find_weights(settings.load, Path(settings.experiments_root))
        except ConfigError as error:
            yield f"{resolved.configuration.where(('load',))}: {error}"
    if settings.device != "auto":
        try:
            # Only its name: where a check runs, the device of the run need not exist.
            torch.device(settings.device)
        except RuntimeError:
            meant = "cuda" if settings.device.lower() == "gpu" else settings.device
            hint = suggest(meant, ("auto", "cpu", "cuda", "cuda:1", "mps"))
            yield f"{resolved.configuration.where(('device',))}: no such device.{hint}"


def _missing_methods(resolved: Resolved) -> Iterator[str]:
    for method in ("initialize", "train_step"):
        yield from _missing_method(resolved.model.target, Trainer, method)
    for blueprint in resolved.evaluations.values():
        yield from _missing_method(blueprint.target, Evaluation, "evaluate")
        yield from _missing_method(blueprint.target, DatasetEvaluation, "evaluate_batch")


def _missing_method(target: type, base: type, method: str) -> Iterator[str]:
    """Tell that a class inherits a method which it must define, and what it may have called it."""
    if not issubclass(target, base) or getattr(target, method) is not getattr(base, method):
        return
    if base is DatasetEvaluation and target.evaluate is not base.evaluate:  # type: ignore[attr-defined]
        return
    own = [name for name in vars(target) if callable(getattr(target, name))]
    meant = closest(method, own)
    hint = f" Is {meant!r} meant to be it?" if meant else ""
    if method == "initialize" and "__init__" in own:
        hint = " Its parameters come to initialize(self, ...), not to __init__."
    yield f"{target.__name__} must define {method}(self, ...).{hint}"


def _unknown_datasets(resolved: Resolved) -> Iterator[str]:
    for name, blueprint in resolved.evaluations.items():
        dataset = blueprint.params.get("evaluate_on")
        if isinstance(dataset, str) and dataset not in resolved.data:
            where = resolved.configuration.where(("eval", name, "params", "evaluate_on"))
            yield f"{where}: there is no dataset {dataset!r}.{suggest(dataset, resolved.data)}"


def _architecture_problems(resolved: Resolved) -> Iterator[str]:
    """Compare the calls of instantiate_architecture in the trainer with the classes of the file."""
    calls = _architecture_calls(resolved.model.target)
    try:
        path = resolved.architecture_file
    except ComponentError as error:
        yield str(error)
        return
    if path is None:
        if calls:
            yield (
                f"{resolved.model.target.__name__} builds the architecture {calls[0][0]!r}: "
                "give --arch_impl FILE.py."
            )
        return
    for name, keywords in calls:
        try:
            signature = signature_of(resolved.index.find_in_file(path, name))
        except ComponentError as error:
            yield f"arch_impl: {error}"
            continue
        known = signature.parameters if signature else {}
        for key in () if takes_anything(signature) else keywords:
            if key not in known:
                hint = suggest(key, list(known))
                yield f"arch_impl: {name}{signature} in {path} takes no {key!r}.{hint}"


@functools.lru_cache(maxsize=64)
def _architecture_calls(target: type) -> tuple[tuple[str, list[str]], ...]:
    return tuple(_read_architecture_calls(target))


def _read_architecture_calls(target: type) -> Iterator[tuple[str, list[str]]]:
    """Read which architectures a trainer and the classes it derives from ask for."""
    for parent in target.__mro__:
        if parent is Trainer:
            return
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(parent)))
        except (OSError, SyntaxError, TypeError):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "instantiate_architecture"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                yield str(node.args[0].value), [k.arg for k in node.keywords if k.arg is not None]

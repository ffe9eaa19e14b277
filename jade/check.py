"""Find what would only fail once a run is being built, without building anything."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jade.assemble import AUTO, choose_device, parse_device
from jade.class_index import ClassIndex
from jade.components import Blueprint
from jade.errors import ComponentError, ConfigError, closest, suggest
from jade.eval import DatasetEvaluation, Evaluation
from jade.journal import OWN_NAMES
from jade.loggers.tensorboard_logger import require_tensorboard
from jade.loggers.wandb_account import resolve_mode
from jade.remote.place import names_remote_run
from jade.resolve import Draft
from jade.returned import what_is_shown
from jade.run_dir import check_writable
from jade.runs import find_directory
from jade.signatures import signature_of, takes_anything
from jade.stopping import decisive_metrics, parse_threshold
from jade.trainer import Trainer
from jade.user_modules import shown
from jade.warm_start import find_local_weights, find_weights


def find_problems(draft: Draft) -> list[str | ConfigError]:
    """List what is wrong with settings, methods, names of datasets and architectures.

    Where the run will be is not known: neither its devices nor W&B are asked.
    """
    return [*_setting_problems(draft, find_local_weights), *_code_problems(draft)]


def find_problems_here(draft: Draft) -> list[str | ConfigError]:
    """List what is wrong, also with this machine: the run is to start here and now."""
    return [
        *_setting_problems(draft, find_weights),
        *_machine_problems(draft),
        *_code_problems(draft),
    ]


def _code_problems(draft: Draft) -> Iterator[str]:
    yield from _missing_methods(draft)
    yield from _misfit_methods(draft)
    yield from _taken_names(draft)
    yield from _unknown_datasets(draft)
    yield from _architecture_problems(draft)
    yield from _metric_problems(draft)


def _setting_problems(draft: Draft, find: Callable[[str, Path], object]) -> Iterator[ConfigError]:
    settings, root = draft.settings, Path(draft.settings.experiments_root)
    checks: dict[str, Callable[[], object]] = {
        "experiments_root": lambda: check_writable(root, draft.where("experiments_root")),
    }
    if settings.stop_when:
        checks["stop_when"] = functools.partial(parse_threshold, settings.stop_when)
    # A run that is continued has its weights.
    if settings.load is not None and settings.resume is None:
        checks["load"] = functools.partial(find, settings.load, root)
    if settings.resume not in (None, AUTO) and not names_remote_run(str(settings.resume)):
        checks["resume"] = functools.partial(find_directory, str(settings.resume), root)
    if settings.device != AUTO:
        checks["device"] = functools.partial(parse_device, settings.device)
    yield from _failures(checks, draft)


def _machine_problems(draft: Draft) -> Iterator[ConfigError]:
    settings = draft.settings
    checks: dict[str, Callable[[], object]] = {}
    if settings.device != AUTO:
        checks["device"] = functools.partial(choose_device, settings.device)
    if not settings.dry_run:
        environ = draft.configuration.environ
        checks["wandb"] = functools.partial(resolve_mode, settings.wandb, environ)
        if settings.tensorboard:
            checks["tensorboard"] = require_tensorboard
    yield from _failures(checks, draft)


def _failures(checks: Mapping[str, Callable[[], object]], draft: Draft) -> Iterator[ConfigError]:
    """Say why checks of settings fail; what does not fit, or is unknown, need not be checked."""
    for key, check in checks.items():
        if key in draft.doubtful:
            continue
        try:
            check()
        except ConfigError as error:
            where = draft.where(key)
            text = str(error).removeprefix(where).removeprefix(key).lstrip(": ")
            yield type(error)(f"{where}: {text}")


def _missing_methods(draft: Draft) -> Iterator[str]:
    if draft.model is not None:
        for method in ("initialize", "train_step"):
            yield from _missing_method(draft.model.target, Trainer, method)
    for blueprint in draft.evaluations.values():
        yield from _missing_method(blueprint.target, Evaluation, "evaluate")
        yield from _missing_method(blueprint.target, DatasetEvaluation, "evaluate_batch")


def _misfit_methods(draft: Draft) -> Iterator[str]:
    """Tell which methods cannot be called as they will be: with a batch, or with nothing."""
    if draft.model is not None:
        yield from _misfit_method(draft.model.target, "train_step", "data")
    for blueprint in draft.evaluations.values():
        target: Any = blueprint.target
        yield from _misfit_method(target, "evaluate")
        if getattr(target, "evaluate", None) is DatasetEvaluation.evaluate:
            yield from _misfit_method(target, "evaluate_batch", "data")


def _misfit_method(target: type, method: str, *arguments: str) -> Iterator[str]:
    function = inspect.getattr_static(target, method, None)
    if not inspect.isfunction(function):
        return
    # Not of what a decorator wraps, but of what is called.
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        signature.bind("self", *arguments)
    except TypeError:
        wanted = ", ".join(("self", *arguments))
        yield f"{target.__name__}.{method}{signature} must be {method}({wanted})."


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


def _taken_names(draft: Draft) -> Iterator[str]:
    for name in OWN_NAMES:
        if name in draft.names["eval"]:
            where = draft.where("eval", name)
            yield f"{where}: the loop itself logs {name!r}; use another name."


def _unknown_datasets(draft: Draft) -> Iterator[str]:
    datasets = draft.names["data"]
    for name, blueprint in draft.evaluations.items() if "data" not in draft.doubtful else ():
        dataset = blueprint.params.get("evaluate_on")
        if isinstance(dataset, str) and dataset not in datasets:
            where = draft.where("eval", name, "params", "evaluate_on")
            yield f"{where}: there is no dataset {dataset!r}.{suggest(dataset, datasets)}"


def _architecture_problems(draft: Draft) -> Iterator[str]:
    """Compare the calls of instantiate_architecture in the trainer with the classes of the file."""
    if draft.index is None or "arch_impl" in draft.doubtful:
        return
    where = draft.where("arch_impl")
    calls = _architecture_calls(draft.model.target) if draft.model else ()
    try:
        path = draft.architecture_file
    except ComponentError as error:
        yield f"{where}: {error}"
        return
    if path is None:
        if draft.model and calls:
            yield (
                f"{draft.model.target.__name__} builds the architecture {calls[0][0]!r}: "
                "give --arch_impl FILE.py."
            )
        return
    found = _misfits(draft.index, path, calls) if calls else draft.index.problems_of(path)
    yield from (f"{where}: {text}" for text in found)


def _misfits(
    index: ClassIndex, path: Path, calls: Iterable[tuple[str, list[str]]]
) -> Iterator[str]:
    for name, keywords in calls:
        try:
            signature = signature_of(index.find_in_file(path, name))
        except ComponentError as error:
            yield str(error)
            continue
        known = signature.parameters if signature else {}
        for key in () if takes_anything(signature) else keywords:
            if key not in known:
                hint = suggest(key, list(known))
                yield f"{name}{signature} in {shown(path)} takes no {key!r}.{hint}"


def _metric_problems(draft: Draft) -> Iterator[str]:
    """Tell which metrics that decide something are named after evaluations without numbers."""
    for setting, metric in decisive_metrics(draft.settings).items():
        blueprint = draft.evaluations.get(metric.partition("/")[0])
        instead = _shown_by(blueprint) if blueprint else None
        if blueprint and instead and setting not in draft.doubtful:
            others = [name for name, item in draft.evaluations.items() if not _shown_by(item)]
            yield (
                f"{draft.where(setting)}: {metric!r} is no number, "
                f"{blueprint.target.__name__}.evaluate returns {instead}.{suggest(metric, others)}"
            )


def _shown_by(blueprint: Blueprint) -> str | None:
    """Return what an evaluation returns in the place of numbers."""
    evaluate = getattr(blueprint.target, "evaluate", None)
    own = evaluate is not None and evaluate is not Evaluation.evaluate
    return what_is_shown(evaluate) if own else None


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

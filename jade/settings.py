"""The settings of a run: each is a flag, a top-level key of a configuration, and can be swept."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jade.conform import Mismatch, conform
from jade.corrections import correction
from jade.origin import KeyPath

SECTIONS = ("model", "data", "eval", "loggers")
# Settings that say where the sections are; a frozen configuration holds the sections themselves.
FILES = ("config", "model_conf", "data_conf", "eval_conf")
# What is asked of one start of a run only.
REQUESTS = ("resume",)
# Other names under which older configurations know a key.
ALIASES = {"trainer": "model", "architectures": "arch_impl"}
# The one setting that may also stand in a section, beside the class that it is about.
LOAD_IN_MODEL = ("model", "load")


def _setting(
    default: Any = None,
    *,
    metavar: str | None = None,
    group: str,
    help: str,  # noqa: A002
) -> Any:
    metadata = {"help": help, "group": group, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata)


INPUTS, AMOUNT, PLACE = "what is trained", "how long", "where and how"
OUTPUT, LOGGING = "what is kept", "what is logged"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything about a run that is not the model, the data or the evaluations."""

    model_conf: str | None = _setting(
        metavar="FILE", group=INPUTS, help="YAML with the class and params of the trainer"
    )
    data_conf: str | None = _setting(
        metavar="FILE", group=INPUTS, help="YAML with one description (class, params) per dataset"
    )
    eval_conf: str | None = _setting(
        metavar="FILE", group=INPUTS, help="YAML with one description per evaluation"
    )
    arch_impl: str | None = _setting(
        metavar="FILE.py", group=INPUTS, help="Python file with the architectures of the trainer"
    )
    config: tuple[str, ...] = _setting(
        (),
        metavar="FILE",
        group=INPUTS,
        help="YAML with sections model, data, eval and any setting; repeatable, the later one wins",
    )
    modules: tuple[str, ...] = _setting(
        (),
        metavar="DIR",
        group=INPUTS,
        help="folder with your classes; repeatable (default: modules, beside you or your files)",
    )
    load: str | None = _setting(
        metavar="CKPT",
        group=INPUTS,
        help="start from the weights of a checkpoint, a run (directory, id, entity/project/id on "
        "W&B) or a model file",
    )
    load_strict: bool = _setting(
        default=True, group=INPUTS, help="whether all weights must fit; false loads those that do"
    )
    epochs: int | None = _setting(metavar="N", group=AMOUNT, help="train for N epochs")
    train_for: str | None = _setting(
        metavar="AMOUNT",
        group=AMOUNT,
        help="train for '1000 iterations', '0.5 hours', '2 epochs' or any counter of the trainer; "
        "with --epochs, whichever ends first",
    )
    time_limit: str | None = _setting(
        metavar="AMOUNT",
        group=AMOUNT,
        help="be gone after '55 minutes': stop a little before (a tenth, at most 2 minutes) with a "
        "checkpoint, exit code 75",
    )
    stop_when: str | None = _setting(
        metavar="TEST",
        group=AMOUNT,
        help="stop once a metric passes a value: 'Accuracy >= 0.99'",
    )
    patience: int | None = _setting(
        metavar="N",
        group=AMOUNT,
        help="stop after N evaluations of best_metric without an improvement",
    )
    min_delta: float = _setting(
        0.0, metavar="X", group=AMOUNT, help="what counts as an improvement: more than X"
    )
    stop_on_nan: bool = _setting(
        default=True, group=AMOUNT, help="stop when a loss item is NaN or infinite"
    )
    seed: int | None = _setting(
        metavar="N",
        group=PLACE,
        help="seed of every random generator; null or -1 draws one and records it",
    )
    deterministic: bool = _setting(
        default=False, group=PLACE, help="use only deterministic algorithms of torch"
    )
    device: str = _setting(
        "auto", metavar="NAME", group=PLACE, help="auto, cpu, cuda, cuda:1 or mps"
    )
    env_file: str | None = _setting(
        metavar="FILE", group=PLACE, help="variables for configuration values (default: .env)"
    )
    dry_run: bool = _setting(
        default=False, group=PLACE, help="one batch of everything, then remove the run directory"
    )
    experiments_root: str = _setting(
        "experiments", metavar="DIR", group=OUTPUT, help="where run directories are made"
    )
    resume: str | None = _setting(
        metavar="auto|RUN",
        group=OUTPUT,
        help="auto: continue the newest unfinished run of this configuration, or start one; RUN: "
        "continue this directory or id, or run on W&B; amounts such as --epochs are totals",
    )
    run_name: str | None = _setting(metavar="TEXT", group=OUTPUT, help="name shown for the run")
    checkpoint_every: str | None = _setting(
        metavar="AMOUNT", group=OUTPUT, help="keep checkpoint_<iteration>.pt this often"
    )
    backup_every: str | None = _setting(
        "5 minutes", metavar="AMOUNT", group=OUTPUT, help="overwrite last.pt this often"
    )
    keep_last: int | None = _setting(
        metavar="K", group=OUTPUT, help="keep only the K newest periodic checkpoints"
    )
    best_metric: str | None = _setting(
        metavar="NAME", group=OUTPUT, help="keep best.pt by this metric of an evaluation"
    )
    best_mode: Literal["min", "max"] = _setting(
        "min", group=OUTPUT, help="whether a small or a large best_metric is good"
    )
    upload: Literal["none", "last", "best", "all"] = _setting(
        "best",
        group=OUTPUT,
        help="checkpoints that W&B gets a copy of: last.pt, also best.pt (both overwritten in "
        "place), or all",
    )
    artifact: bool = _setting(
        default=False, group=OUTPUT, help="give W&B the trained model as an artifact, at the end"
    )
    log_loss_every: str = _setting(
        "50 iterations",
        metavar="AMOUNT",
        group=LOGGING,
        help="log the means of the loss items this often",
    )
    evaluate_first: bool = _setting(
        default=True, group=LOGGING, help="run the evaluations once before training, too"
    )
    wandb: Literal["auto", "online", "offline", "disabled"] = _setting(
        "auto", group=LOGGING, help="auto: online when logged in to W&B, otherwise offline"
    )
    tensorboard: bool = _setting(default=False, group=LOGGING, help="write TensorBoard events, too")
    group: str | None = _setting(metavar="TEXT", group=LOGGING, help="group of the run on W&B")
    tags: tuple[str, ...] = _setting(
        (), metavar="TEXT", group=LOGGING, help="tags of the run: 'a,b', or repeat the flag"
    )
    notes: str | None = _setting(metavar="TEXT", group=LOGGING, help="notes on the run on W&B")
    job_type: str | None = _setting(metavar="TEXT", group=LOGGING, help="job type on W&B")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", group=LOGGING, help="what is written to run.log"
    )


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
TYPES = typing.get_type_hints(Settings)


def canonical(path: KeyPath) -> KeyPath:
    """Spell the first part of a key path as the configuration does."""
    first = str(path[0])
    underscored = first.replace("-", "_")
    first = underscored if underscored in FIELDS else first
    spelled = (ALIASES.get(first, first), *path[1:])
    return spelled[1:] if spelled[:2] == LOAD_IN_MODEL else spelled


def fit(name: str, value: Any) -> tuple[Any, str | None]:
    """Fit a value to a setting; the second part is the problem, if there is one."""
    kind = TYPES[name]
    if value is None:
        return (None if type(None) in typing.get_args(kind) else FIELDS[name].default), None
    if isinstance(value, str) and kind == tuple[str, ...]:
        value = [item.strip() for item in value.split(",")] if name == "tags" else [value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_amount(name):
        value = str(value)
    try:
        return conform(value, kind), None
    except Mismatch as mismatch:
        return None, f"expected {mismatch}, not {value!r}.{_correction(name, value)}"


def _correction(name: str, value: Any) -> str:
    if name == "epochs" and isinstance(value, (float, str)):
        return " For a part of an epoch, or another unit, there is --train_for '0.5 epochs'."
    return correction(value, TYPES[name])


def _is_amount(name: str) -> bool:
    return bool(FIELDS[name].metadata["metavar"] == "AMOUNT")


def from_values(values: Mapping[str, Any]) -> Settings:
    """Make settings from values that ``fit`` has passed."""
    return Settings(**{key: value for key, value in values.items() if key in FIELDS})

"""Examine a machine before trials run on it: disk, devices, variables, data, login."""

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jade.config import Configuration
from jade.envvars import expand_text, names_in, similar_variable
from jade.errors import ConfigError, MachineError, raise_all
from jade.job import is_in_job
from jade.launch.device_probe import probe
from jade.loggers import wandb_account as account
from jade.overrides import join_key, leaves
from jade.settings import FIELDS

# With less than this a checkpoint may not fit.
LEAST_FREE_BYTES = 200 * 2**20
GIB = 2**30
# Longer than GPUs may take to answer.
TIMEOUT_S = 300.0
ROOT = "experiments_root"
DOWNLOAD = "download"
# How many GPUs SLURM has given to a job on this machine.
GIVEN = "SLURM_GPUS_ON_NODE"


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing; with an advice, it is a problem."""

    topic: str
    text: str
    advice: str | None = None

    @property
    def is_problem(self) -> bool:
        return self.advice is not None

    def __str__(self) -> str:
        return f"{self.topic}: {self.text}" + (f" {self.advice}" if self.advice else "")


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """All that trials need from a machine.

    Args:
        configurations: Of trials, each with the variables of its own.
        folders: What is written to, by name.
        devices: What trials run on.
        environ: Of the trials.
        command_problems: What is wrong with the command that starts trials.
        needs_login: Whether trials talk to W&B.
    """

    configurations: Sequence[Configuration]
    folders: Mapping[str, Path]
    devices: Sequence[str]
    environ: Mapping[str, str]
    command_problems: Sequence[str] = ()
    needs_login: bool = True

    def examine(self) -> list[Finding]:
        """Examine everything, and return what was found, problems and all."""
        found: list[Finding] = []
        for _, look in self._steps():
            found += look()
        return list(dict.fromkeys(found))

    def _steps(self) -> Iterator[tuple[str, Callable[[], Iterable[Finding]]]]:
        """Yield what there is to look at, and how."""
        for name, path in self.folders.items():
            yield f"{name} {path}", partial(examine_folder, name, path)
        yield "devices", lambda: examine_devices(self.devices, self.environ)
        yield "data", lambda: examine_configurations(self.configurations)
        yield "command", self._examine_command
        if self.needs_login:
            yield "login", lambda: [examine_login(self.environ)]

    def _examine_command(self) -> Iterator[Finding]:
        for text in self.command_problems:
            yield Finding("command", text, "Correct it.")

    def problems(self) -> list[Finding]:
        """Examine everything in bounded time, and return only what is wrong.

        Whoever looks at a file system that hangs does not come back: nobody waits for that.
        """
        found: list[Finding] = []
        errors: list[Exception] = []
        looked_at: list[str] = []

        def look_at_all() -> None:
            try:
                for what, look in self._steps():
                    looked_at.append(what)
                    found.extend(look())
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=look_at_all, name="jade-preflight", daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        if errors:
            raise errors[0]
        problems = [finding for finding in dict.fromkeys(found) if finding.is_problem]
        if thread.is_alive():
            text = f"{looked_at[-1]} has not answered for {TIMEOUT_S:.0f} s."
            problems.append(Finding("machine", text, "Does a file system or a device hang?"))
        return problems

    def require_success(self) -> None:
        """Refuse to work here if anything is wrong.

        Raises:
            MachineError: In a job of a cluster: it is to be run on another machine.
            ConfigError: Elsewhere: somebody is there to mend it.
        """
        try:
            raise_all([str(finding) for finding in self.problems()])
        except ConfigError as error:
            if not is_in_job(self.environ):
                raise
            raise MachineError(f"{socket.gethostname()} cannot run this. {error}") from error


def examine_folder(name: str, path: Path) -> Iterator[Finding]:
    """Try to write below a folder, which need not exist yet, and see how much space is left."""
    existing = path.absolute()
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(existing).free
    except OSError as error:
        reason = error.strerror or error
        yield Finding(name, f"{path} cannot be written: {reason}.", "Free it, or name another one.")
        return
    if free < LEAST_FREE_BYTES:
        yield Finding(
            name,
            f"{path} has {free / 2**20:.0f} MiB left.",
            f"Free at least {LEAST_FREE_BYTES / 2**20:.0f} MiB, or name another one.",
        )
    else:
        yield Finding(name, f"{path} can be written, {free / GIB:.1f} GiB are free.")


def examine_devices(devices: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Try the GPUs that are wanted, or that a job was given; nothing else needs a try."""
    wanted = [name for name in devices if name.startswith("cuda")]
    given = environ.get(GIVEN, "")
    if not wanted and given.isdecimal():
        wanted = [f"cuda:{index}" for index in range(int(given))]
    if not wanted:
        yield Finding("devices", f"{', '.join(devices)}.")
        return
    seen = probe(environ)
    problems: Mapping[str, str] = seen["problems"]
    advice = f"SLURM has given {given} here." if given else "Choose --devices."
    for name in wanted:
        index = int(name.partition(":")[2] or 0)
        if index >= seen["count"]:
            reason = f": {problems['cuda']}" if "cuda" in problems else ""
            found = "none" if not seen["count"] else f"cuda:0 to cuda:{seen['count'] - 1}"
            yield Finding("devices", f"{name} is not there (found: {found}){reason}.", advice)
        elif name in problems:
            yield Finding("devices", f"{name} fails: {problems[name]}.", "Is it in use?")
        else:
            yield Finding("devices", f"{name} works.")


def examine_configurations(configurations: Sequence[Configuration]) -> Iterator[Finding]:
    """Look for variables that are not set, and for data that is not there."""
    variables: set[str] = set()
    for configuration in configurations:
        for path, value in [*leaves(configuration.values), *_given(configuration)]:
            if not isinstance(value, str):
                continue
            yield from _examine_value(configuration, path, value, variables)
    if variables:
        yield Finding("variables", f"set: {', '.join(sorted(variables))}.")


def _given(configuration: Configuration) -> list[tuple[tuple[Any, ...], Any]]:
    return [(override.path, override.value) for override in configuration.overrides]


def _examine_value(
    configuration: Configuration, path: tuple[Any, ...], value: str, variables: set[str]
) -> Iterator[Finding]:
    where = configuration.where(path)
    used = names_in(value)
    try:
        expanded, missing = expand_text(value, configuration.environ)
    except ConfigError as error:
        yield Finding("variables", f"{where}: {error}", "Correct it.")
        return
    for name in missing:
        hint = similar_variable(name, configuration.environ)
        yield Finding("variables", f"{where} needs {name}, which is not set.{hint}", f"Set {name}.")
    variables |= used & set(configuration.environ)
    is_data = path[0] == "data" and not missing
    if is_data and (used or value.startswith("/")) and os.sep in expanded.text:
        yield from _examine_data(configuration, path, Path(expanded.text).expanduser())


def _examine_data(
    configuration: Configuration, path: tuple[Any, ...], folder: Path
) -> Iterator[Finding]:
    where = configuration.where(path)
    try:
        is_there = folder.exists()
    except OSError as error:
        # Such as a file system whose server is gone.
        yield Finding(
            "data", f"{where}: {folder} cannot be reached: {error.strerror}.", "Mount it."
        )
        return
    if is_there:
        yield Finding("data", f"{join_key(path)}: {folder} is there.")
    elif not _is_downloaded(configuration, path):
        yield Finding(
            "data", f"{where}: {folder} does not exist.", "Mount it, or set the variable."
        )


def _is_downloaded(configuration: Configuration, path: tuple[Any, ...]) -> bool:
    """Tell whether the dataset that has this parameter fetches itself what is not there."""
    values: Any = configuration.values
    for key in path[:-1]:
        values = values.get(key) if isinstance(values, Mapping) else None
    return isinstance(values, Mapping) and bool(values.get(DOWNLOAD))


def examine_login(environ: Mapping[str, str]) -> Finding:
    """Look for a key, without asking W&B whether it is a good one."""
    url = account.base_url(environ)
    if not account.is_installed():
        return Finding("login", "the package wandb is not installed.", f"{account.INSTALL}.")
    if not account.is_logged_in(environ):
        return Finding(
            "login",
            f"there is no API key for {url}.",
            "Run `wandb login`, or set WANDB_API_KEY: the key of your W&B settings page, "
            "not a password.",
        )
    return Finding("login", f"there is a key for {url}.")


def find_setting(configuration: Configuration, key: str) -> str:
    """Find the value of a setting that is text, as the run will have it."""
    value = configuration.values.get(key, FIELDS[key].default)
    for override in configuration.overrides:
        if override.key == key:
            value = override.value
    return expand_text(str(value), configuration.environ)[0].text

"""Examine the account, the machine and configurations of a user, and say what to do."""

import importlib.util
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jade import __version__
from jade.config import Configuration
from jade.errors import ConfigError, JadeError, NetworkError, closest
from jade.launch.device_probe import probe
from jade.launch.preflight import (
    ROOT,
    Finding,
    examine_configurations,
    examine_folder,
    examine_login,
    find_setting,
)
from jade.launch.slots import num_cores
from jade.launch.wandb_sweep import ask_briefly
from jade.loggers import wandb_account as account
from jade.provenance import describe_git, find_packages
from jade.remote.client import Client

PACKAGES = ("torch", "torchvision", "wandb", "numpy")
NEEDED = ("torch", "numpy")
SHORTEST_KEY = 40
DEFAULT_ROOT = "experiments"
ONLINE = "online"


def examine_all(
    configurations: Sequence[Configuration], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Examine everything; configurations may be none."""
    yield from examine_versions()
    yield from examine_account(environ)
    yield from examine_machine()
    yield from examine_places(configurations, environ)
    yield from examine_configurations(configurations)


def examine_versions() -> Iterator[Finding]:
    """Tell the versions of what results depend on."""
    yield Finding("python", f"{platform.python_version()} ({platform.platform()})")
    packages = find_packages()
    for name in PACKAGES:
        version = packages.get(name)
        if version is not None:
            yield Finding(name, version)
        elif name in NEEDED or importlib.util.find_spec(name) is not None:
            yield Finding(name, "is not installed.", f"pip install {name}")
        else:
            yield Finding(name, "is not installed; some features need it.")
    git = describe_git(Path.cwd())
    code = "not in a git repository" if git is None else _describe(git)
    yield Finding("jade", f"{__version__}; your code: {code}")


def _describe(git: Mapping[str, Any]) -> str:
    commit = str(git.get("commit") or "no commit yet")[:12]
    return f"commit {commit}{', with changes that are not committed' if git.get('dirty') else ''}"


def examine_account(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the login and at the variables of W&B, and ask the server if it can be reached."""
    yield from _examine_variables(environ)
    try:
        mode = account.requested_mode("auto", environ) or ONLINE
    except ConfigError as error:
        yield Finding("mode", f"{error}", "Correct it.")
        return
    yield Finding("server", f"{account.base_url(environ)} (mode: {mode})")
    login = examine_login(environ)
    if mode != ONLINE:
        said = "WANDB_MODE" if environ.get("WANDB_MODE") else f"`wandb {mode}`"
        yield Finding("server", f"was not asked, and needs no login: {said} says {mode}.")
        return
    yield login
    if not login.is_problem and _key_problem(environ) is None:
        yield from _ask_server(environ)


def _examine_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    entity, user = environ.get("WANDB_ENTITY"), environ.get("WANDB_USER")
    if entity and user and entity != user:
        yield Finding(
            "entity",
            f"WANDB_ENTITY is {entity!r}, WANDB_USER is {user!r}: the former is used.",
            "Keep one of them.",
        )
    problem = _key_problem(environ)
    if problem is not None:
        yield Finding(
            "login",
            f"WANDB_API_KEY {problem}.",
            "It is not your password: copy the API key from your W&B settings page.",
        )
    if account.is_installed():
        for hint in account.misspelled(environ, account.known_variables()):
            yield Finding("variables", hint, "Rename it.")


def _key_problem(environ: Mapping[str, str]) -> str | None:
    """Say what cannot be right about a key; it stays unsaid what it is."""
    key = environ.get("WANDB_API_KEY")
    if key is None:
        return None
    if key != key.strip():
        return "has blanks around it"
    if len(key) < SHORTEST_KEY:
        return f"has {len(key)} characters, an API key has at least {SHORTEST_KEY}"
    return None


def _ask_server(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        ask_briefly()
        client = Client(environ)
        with client.asking("the account"):
            viewer = client.api.viewer
            own, teams = str(viewer.username), [str(team) for team in viewer.teams]
            default = str(client.api.default_entity)
    except NetworkError as error:
        yield Finding("server", f"{error}", "Check the network; runs are recorded offline.")
        return
    except JadeError as error:
        yield Finding("login", f"{error}", "Correct it.")
        return
    yield Finding("login", f"the key is accepted: {own}.")
    entity = account.entity(environ)
    known = [own, *teams]
    if entity is None:
        yield Finding("entity", f"{default} (none is set).")
    elif entity in known:
        yield Finding("entity", f"{entity}.")
    else:
        meant = closest(entity, known)
        hint = f" Is {meant!r} meant?" if meant else ""
        yield Finding(
            "entity",
            f"{entity!r} is none of yours: {', '.join(known)}.{hint}",
            "Set WANDB_ENTITY, or ask to be added to the team.",
        )
        return
    yield from _examine_project(client, entity or default, account.project(environ))


def _examine_project(client: Client, entity: str, project: str | None) -> Iterator[Finding]:
    if project is None:
        yield Finding("project", f"none is set: W&B takes {account.NO_PROJECT}.")
        return
    try:
        with client.asking(f"the projects of {entity}"):
            known = [str(item.name) for item in client.api.projects(entity)]
    except JadeError as error:
        yield Finding("project", f"{project}; {error}", "Correct it.")
        return
    if project in known:
        yield Finding("project", f"{project}.")
        return
    meant = closest(project, known)
    hint = f" Is {meant!r} meant?" if meant else ""
    text = f"{entity} has no project {project!r} yet: the first run or sweep creates it.{hint}"
    yield Finding("project", text)


def examine_machine() -> Iterator[Finding]:
    """Tell what there is to compute with."""
    yield Finding("cpu", f"{num_cores()} cores.")
    if importlib.util.find_spec("torch") is None:
        return
    found = probe(dict(os.environ))
    for name, reason in found["problems"].items():
        yield Finding("devices", f"{name} fails: {reason}", "Is its driver right, is it in use?")
    working = [
        f"cuda:{index}"
        for index in range(found["count"])
        if f"cuda:{index}" not in found["problems"]
    ]
    yield Finding("devices", f"{', '.join(working) or 'no GPU: the CPU is used'}.")


def examine_places(
    configurations: Sequence[Configuration], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Try what runs are written to."""
    roots = {find_setting(configuration, ROOT) for configuration in configurations}
    for root in sorted(roots) or [environ.get("EXPERIMENTS_ROOT") or DEFAULT_ROOT]:
        yield from examine_folder(ROOT, Path(root))
    yield from examine_folder("WANDB_DIR", Path(environ.get("WANDB_DIR") or ".") / "wandb")
    yield from examine_folder("temporary files", Path(tempfile.gettempdir()))

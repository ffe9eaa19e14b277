"""Tell where W&B is, whether somebody is logged in there, and how a run is to be recorded."""

import configparser
import difflib
import importlib.util
import netrc
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from jade.errors import ConfigError, suggest

MODES = ("auto", "online", "offline", "disabled")
INSTALL = "pip install 'jade-trainer[wandb]'"
# What W&B calls the project of runs that were started without one.
NO_PROJECT = "uncategorized"

# Where W&B was before it moved; a login for it still holds.
_FORMER_URL = "https://api.wandb.ai"
# Names of former days that W&B still accepts.
_FORMER_MODES = {"run": "online", "dryrun": "offline"}
_ASSIGNED_URL = re.compile(r"""^DEFAULT_BASE_URL\s*=\s*["'](https?://[^"']+)["']""", re.MULTILINE)
_VARIABLES = (
    "WANDB_API_KEY",
    "WANDB_BASE_URL",
    "WANDB_ENTITY",
    "WANDB_MODE",
    "WANDB_PROJECT",
    "WANDB_USER",
)


def resolve_mode(mode: str, environ: Mapping[str, str]) -> str:
    """Return ``online``, ``offline`` or ``disabled``, without network, question or wandb's import.

    Args:
        mode: One of `MODES`. ``auto`` is what ``WANDB_MODE`` or ``wandb offline`` say, else online
            when logged in, else offline; and disabled when wandb is not installed.
        environ: The environment, which also says where W&B keeps its files; wandb itself reads
            the one of the process.

    Raises:
        ConfigError: The mode is unknown, or cannot be had.
    """
    wanted = requested_mode(mode, environ)
    if wanted == "disabled":
        return wanted
    if not is_installed():
        if mode == "auto":
            return "disabled"
        raise ConfigError(f"W&B mode {mode!r} needs the package wandb: {INSTALL}.")
    if wanted == "online" and not is_logged_in(environ):
        raise ConfigError(
            f"W&B mode 'online' needs a login for {base_url(environ)}: run `wandb login`, "
            "set WANDB_API_KEY, or choose 'offline'."
        )
    return wanted or ("online" if is_logged_in(environ) else "offline")


def entity(environ: Mapping[str, str]) -> str | None:
    """Return the user or team that runs belong to, as somebody has set it."""
    return (
        environ.get("WANDB_ENTITY")
        or environ.get("WANDB_USER")
        or stored_settings(environ).get("entity")
        or None
    )


def project(environ: Mapping[str, str]) -> str | None:
    """Return the project that runs belong to, as somebody has set it."""
    return environ.get("WANDB_PROJECT") or stored_settings(environ).get("project") or None


def requested_mode(mode: str, environ: Mapping[str, str]) -> str | None:
    """Return the mode that somebody asked for, or None if the choice is ours."""
    if mode not in MODES:
        raise ConfigError(f"W&B mode: no {mode!r}.{suggest(mode, MODES)}")
    if mode != "auto":
        return mode
    stored = environ.get("WANDB_MODE") or stored_settings(environ).get("mode")
    if not stored:
        return None
    found = _FORMER_MODES.get(stored, stored)
    if found not in MODES[1:]:
        raise ConfigError(f"WANDB_MODE: no {stored!r}.{suggest(stored, MODES[1:])}")
    return found


def is_installed() -> bool:
    """Tell whether the package wandb can be imported."""
    spec = importlib.util.find_spec("wandb")
    # The folder of offline runs is also called wandb, and counts as a package without an origin.
    return spec is not None and spec.origin is not None


def is_logged_in(environ: Mapping[str, str]) -> bool:
    """Look for a key in the places where wandb does: variables, settings file, netrc."""
    if environ.get("WANDB_API_KEY") or environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    if stored_settings(environ).get("api_key"):
        return True
    home = _home(environ)
    named = environ.get("NETRC")
    places = [Path(named).expanduser()] if named else [home / ".netrc", home / "_netrc"]
    url = base_url(environ)
    hosts = {urlsplit(item).netloc for item in (url, _FORMER_URL if url == default_url() else url)}
    return any(_has_password(p, host) for p in places if p.is_file() for host in hosts)


def _has_password(netrc_path: Path, host: str) -> bool:
    try:
        entry = netrc.netrc(str(netrc_path)).authenticators(host)
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return False
    return entry is not None and bool(entry[2])


def base_url(environ: Mapping[str, str]) -> str:
    """Return the address of the server that runs are sent to."""
    return (
        environ.get("WANDB_BASE_URL") or stored_settings(environ).get("base_url") or default_url()
    )


def default_url() -> str:
    """Read from the installed package, without importing it, where W&B is if nobody says so."""
    spec = importlib.util.find_spec("wandb")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, "sdk", "lib", "urls.py")
        found = path.is_file() and _ASSIGNED_URL.search(path.read_text(encoding="utf-8"))
        if found:
            return found[1]
    return _FORMER_URL


def stored_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Read what `wandb login --host`, `wandb offline` and the like have stored."""
    config_dir = environ.get("WANDB_CONFIG_DIR") or _home(environ) / ".config" / "wandb"
    workspace = Path(environ.get("WANDB_DIR") or ".") / "wandb"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read([Path(config_dir) / "settings", workspace / "settings"], encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    return dict(parser["default"]) if parser.has_section("default") else {}


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def known_variables() -> set[str]:
    """Return the names of all variables that wandb reads."""
    import wandb
    from wandb import env

    of_settings = {f"WANDB_{name.upper()}" for name in wandb.Settings.model_fields}
    others = {value for value in vars(env).values() if isinstance(value, str)}
    return of_settings | others | set(_VARIABLES)


def misspelled(environ: Iterable[str], known: set[str]) -> list[str]:
    """Return a hint for each variable that nobody reads, but that looks like one of W&B's."""
    hints = []
    for name in sorted(set(environ) - known):
        matches = difflib.get_close_matches(name.upper(), _VARIABLES, n=1, cutoff=0.8)
        if matches and name.upper().startswith("WA"):
            hints.append(f"The variable {name} is not read. Did you mean {matches[0]!r}?")
    return hints

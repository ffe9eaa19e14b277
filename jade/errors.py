"""The exceptions of JADE, and the suggestions that their messages carry.

::

    JadeError               exit code 1
     +-- ConfigError        exit code 2: configuration files, overrides, flags
     |    +-- VariableError   an environment variable that a value needs is unset
     |    +-- ComponentError  a class is missing, ambiguous, or does not fit its parameters
     |    |    +-- MissingDataError  a dataset that is not on this machine is read
     |    +-- DeviceError     the device is unknown or not available
     +-- CheckpointError    exit code 1: a checkpoint that cannot be written or read
     |    +-- MisfitError     exit code 2: it does not fit the code or configuration
     +-- MachineError       exit code 69: this machine cannot run it, another one may
     +-- RunInUseError      exit code 73: another process owns the run directory
     +-- NetworkError       exit code 1: W&B cannot be reached, or does not answer as it should
     |    +-- UnfinishedError  it has not got all of a run in time
     +-- StorageError       exit code 1: the storage of a sweep is locked, full or out of reach
     +-- TrainingError      exit code 1: training cannot go on
          +-- NonFiniteLossError  a loss item became NaN or infinite
"""

from collections.abc import Iterable, Mapping, Sequence


class JadeError(Exception):
    """Anything that JADE refuses to do; the message is written for the user."""

    exit_code = 1


class ConfigError(JadeError):
    """What the user wrote cannot be run; nothing was started.

    Attributes:
        problems: Each thing that is wrong, where there are several.
    """

    exit_code = 2
    problems: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Return each thing that is wrong, also if it is the only one."""
        return self.problems or (str(self),)


class VariableError(ConfigError):
    """A configuration value refers to an environment variable that is not set."""


class ComponentError(ConfigError):
    """A class cannot be found, or its parameters do not fit."""


class MissingDataError(ComponentError):
    """A dataset of a loaded model is read that cannot be built on this machine."""


class DeviceError(ConfigError):
    """The requested device does not exist on this machine."""


class CheckpointError(JadeError):
    """A checkpoint cannot be written or read."""


class MisfitError(CheckpointError, ConfigError):
    """A checkpoint does not fit the code or configuration; nothing was changed."""


class MachineError(JadeError):
    """This machine cannot run what it is given: nothing is wrong with that, another one may."""

    exit_code = 69


class RunInUseError(JadeError):
    """Another process owns the run: nothing is wrong with the configuration, and time helps."""

    # Of its own: whoever has started the run may wait, and try again.
    exit_code = 73


class NetworkError(JadeError):
    """W&B cannot be reached or does not answer: nothing is wrong with the request, time helps."""


class UnfinishedError(NetworkError):
    """W&B has not got all of a run in the time that there was: other runs may fare better."""


class StorageError(JadeError):
    """The storage of a sweep cannot be used now: nothing is wrong with the sweep, time helps."""


class TrainingError(JadeError):
    """Training cannot go on."""


class NonFiniteLossError(TrainingError):
    """A loss item became NaN or infinite."""


def closest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Find what was probably meant by a name, or None when nothing is like it."""
    # Imported here, because `jade --help` has nothing to suggest.
    import difflib

    lowered = {item.lower(): item for item in sorted(known, reverse=True)}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=likeness)
    if matches:
        return lowered[matches[0]]
    # A name that was cut short, such as a class without its suffix "Trainer".
    longer = sorted((item for item in lowered if item.startswith(name.lower())), key=len)
    is_telling = len(name) > 3 or (len(name) > 1 and len(longer) == 1)
    return lowered[longer[0]] if longer and is_telling else None


def suggest(name: str, known: Iterable[str], *, limit: int = 12) -> str:
    """Render what was probably meant by ``name`` and what is known, as text after a sentence.

    A mapping from text to text shows its values behind the names.
    """
    names = sorted({str(item) for item in known})
    if not names:
        return ""
    meant = closest(name, names)
    details = known if isinstance(known, Mapping) else {}
    listed = [
        f"{item} ({details[item]})" if isinstance(details.get(item), str) else item
        for item in names[:limit]
    ]
    rest = f", ... ({len(names)} in all)" if names[limit:] else ""
    hint = f" Did you mean {meant!r}?" if meant else ""
    return f"{hint} Known: {', '.join(listed)}{rest}."


def raise_all(problems: Sequence[str], error: type[ConfigError] = ConfigError) -> None:
    """Raise one error that lists every problem, or nothing when there is none."""
    if not problems:
        return
    unique = list(dict.fromkeys(problems))
    if len(unique) == 1:
        raise error(unique[0])
    listed = "\n".join(
        f"  {number}. {text}".replace("\n", "\n     ") for number, text in enumerate(unique, 1)
    )
    raised = error(f"{len(unique)} problems:\n{listed}")
    raised.problems = tuple(unique)
    raise raised

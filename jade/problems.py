"""Collect all that is wrong with a configuration, to say it in one message."""

from jade.config import ENV_FILE, Configuration
from jade.envvars import similar_variable
from jade.errors import ConfigError, VariableError, raise_all
from jade.origin import KeyPath


class Problems:
    """What was found so far, each with the key and the place where it was written."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        # Whether one of them is a mistake in the arguments of a command, not in a file.
        self.are_of_command = False
        self._texts: list[str] = []
        self._kinds: dict[str, type[ConfigError]] = {}
        self._missing: dict[str, list[str]] = {}
        for error in configuration.errors:
            for text in error.texts:
                # It opens with the flag, if that names a file that is not there.
                self.add(type(error)(text), of_command=text.startswith("--"))

    def __len__(self) -> int:
        return len(self._texts) + len(self._missing)

    def add(self, problem: str | ConfigError, *, of_command: bool = False) -> None:
        """Add a problem that names its place itself."""
        self.are_of_command = self.are_of_command or of_command
        self._texts.append(str(problem))
        if isinstance(problem, ConfigError):
            self._kinds[str(problem)] = type(problem)

    def add_at(self, path: KeyPath, text: str) -> None:
        """Add a problem with the value at a path."""
        origin = self._configuration.origin(path)
        # What is written nowhere would have to be there.
        is_of_command = origin is None or origin.is_command
        self.add(f"{self._configuration.where(path)}: {text}", of_command=is_of_command)

    def add_missing(self, variable: str, path: KeyPath) -> None:
        """Add an environment variable that the value at a path needs."""
        if ENV_FILE in self._configuration.unread:
            # Probably it stands there.
            return
        places = self._missing.setdefault(variable, [])
        places.append(self._configuration.where(path))

    def raise_all(self, ending: str = "") -> None:
        """Raise one error with everything that was added, or nothing."""
        try:
            self._raise_all()
        except ConfigError as error:
            if ending:
                error.args = (f"{error}{ending}",)
            raise

    def _raise_all(self) -> None:
        if not self._missing:
            kinds = {self._kinds.get(text, ConfigError) for text in self._texts}
            raise_all(self._texts, *(kinds if len(kinds) == 1 else ()))
        elif self._texts:
            raise_all([*self._texts, self._variables()])
        else:
            raise VariableError(self._variables())

    def _variables(self) -> str:
        several = len(self._missing) > 1
        listed = "".join(
            f"\n    {name} for {', '.join(dict.fromkeys(places))}."
            f"{similar_variable(name, self._configuration.environ)}"
            for name, places in self._missing.items()
        )
        verb, them = ("s are", "them") if several else (" is", "it")
        return (
            f"{len(self._missing)} environment variable{verb} not set:{listed}\n"
            f"    Export {them}, write {them} to .env, or give a default: ${{NAME:-default}}."
        )

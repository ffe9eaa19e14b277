"""Read what a sweep file says beyond W&B's format: its section ``jade``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jade.errors import ConfigError, suggest
from jade.schedule import SECONDS, parse_amount
from jade.sweep.metric import Found
from jade.sweep.parameters import Parameter

WHOLE = {"repetitions": 1, "max_concurrent_runs": 1, "seed": 0}
KEYS = ("repetitions", "zip", "when", "cases", "max_concurrent_runs", "timeout", "seed")


@dataclass(frozen=True)
class LocalOptions:
    """What only `jade sweep run` does; W&B takes no notice of it.

    Attributes:
        repetitions: How often each point is run, each time with another seed.
        zip: Groups of keys whose values go together, the first with the first.
        when: Keys that a point has only if others have one of some values.
        cases: Values that go together; the parameters that a case leaves open vary around it.
        max_concurrent_runs: How many runs there are at a time, at most, on one machine.
        timeout_s: How long one run may take.
        seed: Of what is drawn by a search.
    """

    repetitions: int = 1
    zip: tuple[tuple[str, ...], ...] = ()
    when: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    cases: tuple[Mapping[str, Any], ...] = ()
    max_concurrent_runs: int | None = None
    timeout_s: float | None = None
    seed: int = 0

    @property
    def shapes_points(self) -> bool:
        """Whether there are other points than W&B would have."""
        return bool(self.zip or self.when or self.cases)


def read_local(given: Any, parameters: Sequence[Parameter], found: Found) -> LocalOptions:
    """Read the key ``jade``; what is wrong is added to what was found."""
    if not isinstance(given, Mapping):
        found.append((None, f"jade must be a mapping: {{repetitions: 3}}, not {given!r}."))
        return LocalOptions()
    for key in given:
        if key not in KEYS:
            found.append((key, f"unknown key {key!r} of jade.{suggest(str(key), KEYS)}"))
    reader = _Reader(given, parameters, found)
    return LocalOptions(
        repetitions=reader.whole("repetitions") or 1,
        zip=tuple(reader.zip()),
        when=reader.when(),
        cases=tuple(reader.cases()),
        max_concurrent_runs=reader.whole("max_concurrent_runs"),
        timeout_s=reader.timeout(),
        seed=reader.whole("seed") or 0,
    )


class _Reader:
    """Reads one key after the other, and notes what is wrong."""

    def __init__(
        self, given: Mapping[str, Any], parameters: Sequence[Parameter], found: Found
    ) -> None:
        self._given = given
        self._parameters = {parameter.key: parameter for parameter in parameters}
        self._found = found

    def whole(self, key: str) -> int | None:
        value, least = self._given.get(key), WHOLE[key]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            above = "" if least == 0 else " above 0"
            self._complain(key, f"{key} must be a whole number{above}, not {value!r}.")
            return None
        return value

    def timeout(self) -> float | None:
        text = self._given.get("timeout")
        if text is None:
            return None
        try:
            amount = parse_amount(str(text), "timeout")
        except ConfigError as error:
            self._complain("timeout", str(error))
            return None
        if amount.unit != SECONDS:
            self._complain("timeout", f"timeout: {text!r} is no time. Write '2 hours'.")
        return amount.number

    def zip(self) -> Iterator[tuple[str, ...]]:
        groups = self._given.get("zip") or []
        is_list = isinstance(groups, list) and all(isinstance(item, list) for item in groups)
        if not is_list or any(len(group) < 2 for group in groups):
            self._complain("zip", f"zip must be a list of lists of keys: [[a, b]], not {groups!r}.")
            return
        seen: set[str] = set()
        for group in groups:
            keys = tuple(str(key) for key in group)
            if all(self._is_swept("zip", key) for key in keys):
                self._check_group(keys, seen)
                yield keys

    def _check_group(self, keys: tuple[str, ...], seen: set[str]) -> None:
        sizes = {}
        for key in keys:
            # As they are written: a value that stands twice has its place twice.
            values = getattr(self._parameters[key].distribution, "values", None)
            grid = self._parameters[key].distribution.grid()
            if grid is None:
                self._complain("zip", f"zip: {key} has no list of values.")
                return
            sizes[key] = len(values if values is not None else grid)
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{key} has {size}" for key, size in sizes.items())
            self._complain("zip", f"zip: values that go together must be as many: {shown}.")
        for key in keys:
            if key in seen:
                self._complain("zip", f"zip: {key} stands there twice.")
            seen.add(key)

    def when(self) -> dict[str, dict[str, tuple[Any, ...]]]:
        given = self._given.get("when") or {}
        example = "when: {key: {other: value}}"
        if not isinstance(given, Mapping):
            self._complain("when", f"when must be a mapping, {example}, not {given!r}.")
            return {}
        read: dict[str, dict[str, tuple[Any, ...]]] = {}
        for key, conditions in given.items():
            if not isinstance(conditions, Mapping) or not conditions:
                self._complain("when", f"{example}: {key} has {conditions!r}.")
            elif self._is_swept("when", str(key)):
                read[str(key)] = {
                    str(other): tuple(wanted) if isinstance(wanted, list) else (wanted,)
                    for other, wanted in conditions.items()
                    if self._is_swept("when", str(other))
                }
        for key in read:
            if _leads_to(read, key, key):
                self._complain("when", f"when: {key} depends on itself.")
                return {}
        return read

    def cases(self) -> Iterator[dict[str, Any]]:
        given = self._given.get("cases") or []
        if not isinstance(given, list):
            self._complain("cases", f"cases must be a list of mappings, not {given!r}.")
            return
        for number, case in enumerate(given, 1):
            if not isinstance(case, Mapping) or not case:
                self._complain("cases", f"case {number} must be a mapping, not {case!r}.")
            else:
                yield {str(key): value for key, value in case.items()}

    def _is_swept(self, part: str, key: str) -> bool:
        cases = self._given.get("cases") or []
        in_cases = {str(k) for case in cases if isinstance(case, Mapping) for k in case}
        known = {*self._parameters, *(in_cases if part == "when" else ())}
        if key in known:
            return True
        self._complain(part, f"{part}: {key!r} is not swept.{suggest(key, known)}")
        return False

    def _complain(self, key: str, text: str) -> None:
        self._found.append((key, text))


def _leads_to(when: Mapping[str, Mapping[str, Any]], start: str, goal: str, depth: int = 0) -> bool:
    """Tell whether a key depends on another one, however indirectly."""
    others = when.get(start, {})
    if goal in others or depth > len(when):
        return True
    return any(_leads_to(when, other, goal, depth + 1) for other in others)

"""Put all about one run together, as text for a terminal."""

import json
import shlex
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.chart import Chart, Point
from jade.commands.run_view import (
    is_ascii_only,
    make_console,
    print_lines,
    render_number,
    render_progress,
    render_status,
    render_text,
)
from jade.errors import ConfigError
from jade.metrics_table import STEP, MetricsTable
from jade.run_dir import FAILED, FINISHED, PERIODIC, RUNNING, RunDir
from jade.runs import RunSummary
from jade.saved_runs import read_json
from jade.seal import read_iteration
from jade.timespan import render_age, render_duration

if TYPE_CHECKING:
    from rich.text import Text

Series = Mapping[str, Sequence[Point]]

PIPE_WIDTH = 100
BAR_WIDTH = 20
LABEL_WIDTH = 13
# Charts stand side by side, each at least so wide; more of them than this make no overview.
CHART_WIDTH, CHART_HEIGHT, MOST_CHARTS = 46, 5, 8
LARGE_CHART_HEIGHT = 12
GAP = "  "
ERROR_LINES = 12
MOST_TESTED = 4
NOT_METRICS = (STEP, "epoch")


def load_series(directory: Path) -> dict[str, list[Point]]:
    """Load the curve of each metric: pairs of iteration and value."""
    series: dict[str, list[Point]] = {}
    for row in MetricsTable.load(RunDir(directory).metrics).records():
        for name, value in row.items():
            if name not in NOT_METRICS and STEP in row:
                series.setdefault(name, []).append((row[STEP], value))
    return series


class RunPage:
    """One screen about one run.

    Args:
        run: The run.
        series: The curve of each of its metrics.
        chosen: Metrics to draw large, instead of all of them.
        width: Columns to use; by default those of the terminal.
    """

    def __init__(
        self, run: RunSummary, series: Series, chosen: Sequence[str] = (), width: int | None = None
    ) -> None:
        self._run = run
        self._directory = RunDir(run.path)
        self._series = series
        self._chosen = chosen
        self._console = make_console(width)
        self._ascii_only = is_ascii_only(self._console)
        self._width = width or (self._console.width if sys.stdout.isatty() else PIPE_WIDTH)

    def print(self) -> None:
        """Print the page."""
        from rich.text import Text

        parts = [
            self._facts(),
            self._values(),
            self._charts(),
            self._pictures(),
            self._checkpoints(),
            self._tests(),
            self._error(),
            self._how_to_go_on(),
        ]
        for number, lines in enumerate(filter(None, map(list, parts))):
            print_lines(self._console, [Text(), *lines] if number else lines, cut=False)

    # The parts of the page, line by line

    def _facts(self) -> "Iterator[Text]":
        from rich.text import Text

        run = self._run
        name = f" ({run.name})" if run.name else ""
        reason = f": {run.reason}" if run.reason else ""
        yield Text.assemble((f"{run.id}{name}  ", "bold"), render_status(run.status)).append_text(
            render_text(reason)
        )
        facts = {**self._description(), **_origin(self._directory.provenance)}
        for label, fact in facts.items():
            # Words, paths and flags stay whole, to be copied.
            lines = textwrap.wrap(
                fact,
                self._width - LABEL_WIDTH,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for number, line in enumerate(lines):
                yield labelled("" if number else label, line)
        yield labelled("progress", "").append_text(self._progress())
        yield labelled("time", self._times())

    def _description(self) -> dict[str, str]:
        """Say what is trained, as the configuration of the run says."""
        config = _load_config(self._directory.config)
        model = _class_name(config.get("model")) or self._run.model or ""
        architecture = config.get("arch_impl")
        return {
            "directory": str(self._run.path),
            "model": f"{model} ({architecture})" if architecture else model,
            "data": _list_classes(config.get("data")),
            "evaluations": _list_classes(config.get("eval")),
        }

    def _progress(self) -> "Text":
        run = self._run
        total = f"/{run.total_epochs}" if run.total_epochs is not None else ""
        counts = [
            f"epoch {run.epochs}{total}" if run.epochs is not None else "",
            f"iteration {run.iterations:,}" if run.iterations is not None else "",
        ]
        text = render_progress(run, BAR_WIDTH, ascii_only=self._ascii_only)
        return text.append("".join(GAP + count for count in counts if count))

    def _times(self) -> str:
        run = self._run
        took = "running for" if run.status == RUNNING else "took"
        host = f" on {run.host}" if run.host else ""
        attempts = f", attempt {run.attempts}" if run.attempts and run.attempts > 1 else ""
        return (
            f"started {render_age(run.age_s)}, {took} {render_duration(run.duration_s)}"
            f"{host}{attempts}"
        )

    def _values(self) -> "Iterator[Text]":
        """List the last, lowest and highest value of each metric, and mark the best one."""
        from rich.text import Text

        shown = self._chosen or list(self._series)
        if not shown:
            return
        width = max(len("metric"), *map(len, shown))
        header = f"{'last':>12}{'lowest':>12}{'at':>9}{'highest':>12}{'at':>9}"
        yield Text(f"{'metric':<{width}}{header}", style="bold")
        best = self._run.best
        for name in shown:
            points = self._series[name]
            low = min(points, key=lambda point: _sortable(point[1], float("inf")))
            high = max(points, key=lambda point: _sortable(point[1], float("-inf")))
            ends = "".join(f"{render_number(y):>12}{x:>9.0f}" for x, y in (low, high))
            line = render_text(f"{name:<{width}}{render_number(points[-1][1]):>12}{ends}")
            if best is not None and best.metric == name:
                # By the table itself, which is ahead of the status of a run that goes on.
                at, value = low if best.mode == "min" else high
                line.append(f"{GAP}best {render_number(value)} at {at:.0f}", style="green")
            yield line

    def _charts(self) -> "Iterator[Text]":
        if self._chosen:
            for name in self._chosen:
                yield from self._row_of_charts([name], self._width, LARGE_CHART_HEIGHT)
            return
        names = _distinct(self._series)
        num_columns = max(1, (self._width + len(GAP)) // (CHART_WIDTH + len(GAP)))
        width = (self._width - len(GAP) * (num_columns - 1)) // num_columns
        for start in range(0, min(len(names), MOST_CHARTS), num_columns):
            yield from self._row_of_charts(
                names[start : min(start + num_columns, MOST_CHARTS)], width, CHART_HEIGHT
            )
        if names[MOST_CHARTS:]:
            yield render_text(f"{len(names) - MOST_CHARTS} more: --metric NAME draws one of them")

    def _row_of_charts(self, names: Sequence[str], width: int, height: int) -> "Iterator[Text]":
        from rich.text import Text

        columns = []
        for name in names:
            chart = Chart(
                points=self._series[name], width=width, height=height, ascii_only=self._ascii_only
            )
            styled = [Text(line, style="cyan") for line in chart.render()]
            title = render_text(name)
            title.truncate(width)
            title.stylize("bold")
            columns.append([title, *styled])
        for row in range(max(map(len, columns))):
            line = Text()
            for cells in columns:
                cell = cells[row] if row < len(cells) else Text()
                line.append_text(cell).append(" " * (width + len(GAP) - cell.cell_len))
            line.rstrip()
            yield line

    def _pictures(self) -> "Iterator[Text]":
        for picture in self._directory.pictures():
            yield labelled("picture", str(picture))

    def _checkpoints(self) -> "Iterator[Text]":
        for path in sorted(self._directory.checkpoints.glob("*.pt"), key=_checkpoint_order):
            try:
                stat = path.stat()
            except FileNotFoundError:
                # Replaced by a newer one just now.
                continue
            kind, _ = _checkpoint_kind(path)
            iteration = read_iteration(path)
            at = "damaged" if iteration is None else f"iteration {iteration}"
            age = render_age(time.time() - stat.st_mtime)
            yield labelled(
                "checkpoint", f"{kind:<10}{at:<19}{render_size(stat.st_size):>8}{GAP}{age}"
            )

    def _tests(self) -> "Iterator[Text]":
        """List the tests of the run, with what they have measured."""
        for directory in self._directory.tests():
            found = read_json(directory.summary)
            measured = found.get("metrics")
            numbers = measured.items() if isinstance(measured, Mapping) else ()
            shown = "".join(
                f"{GAP}{name} {render_number(value)}"
                for name, value in list(numbers)[:MOST_TESTED]
                if isinstance(value, (int, float))
            )
            status = str(found.get("status") or "not finished")
            yield labelled("test", f"{directory.root.name}{GAP}{status}{shown}")

    def _error(self) -> "Iterator[Text]":
        """Show the end of what the log says of the failure."""
        if self._run.status == FAILED:
            for line in _last_error(self._directory.log):
                yield render_text(line)

    def _how_to_go_on(self) -> "Iterator[Text]":
        run = self._run
        if self._directory.log.is_file():
            yield labelled("log", str(self._directory.log))
        has_state = any(self._directory.checkpoints.glob("*.pt"))
        if run.status not in (RUNNING, FINISHED) and has_state:
            yield labelled("go on", f"jade resume {shlex.quote(str(run.path))}")


def labelled(label: str, fact: str) -> "Text":
    """Render a fact behind its label."""
    from rich.text import Text

    return Text.assemble((f"{label:<{LABEL_WIDTH}}", "dim")).append_text(render_text(fact))


def _sortable(value: float, last: float) -> float:
    return last if value != value else value


def _distinct(series: Series) -> list[str]:
    """List metrics without repetitions: the first of several numbers is logged under two names."""
    return [
        name
        for name, points in series.items()
        if "/" not in name or series.get(name.partition("/")[0]) != points
    ]


def _load_config(path: Path) -> Mapping[str, Any]:
    """Load a configuration as far as it can be read."""
    from jade import yaml_file

    try:
        values = yaml_file.load(path).values
    except ConfigError:
        return {}
    return values if isinstance(values, Mapping) else {}


def _list_classes(section: Any) -> str:
    if not isinstance(section, Mapping):
        return ""
    return ", ".join(f"{name} ({_class_name(item)})" for name, item in section.items())


def _class_name(description: Any) -> str:
    return str(description.get("class", "")) if isinstance(description, Mapping) else ""


def _origin(path: Path) -> dict[str, str]:
    """Say where the run comes from, as far as that can be read."""
    try:
        values = json.loads(path.read_bytes())
        commit = str((values.get("git") or {}).get("commit") or "")[:10]
        changed = " (with changes)" if commit and values["git"].get("dirty") else ""
        command = shlex.join(map(str, values.get("command") or ()))
        seed = values.get("seed")
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    return {
        "seed": "" if seed is None else str(seed),
        "command": command,
        "commit": commit + changed,
    }


def _checkpoint_kind(path: Path) -> tuple[str, int | None]:
    match = PERIODIC.fullmatch(path.name)
    return ("periodic", int(match[1])) if match else (path.stem, None)


def _checkpoint_order(path: Path) -> tuple[bool, int, str]:
    kind, iteration = _checkpoint_kind(path)
    return kind == "periodic", -(iteration or 0), kind


def render_size(num_bytes: int) -> str:
    """Render a number of bytes."""
    exponent = min(len(str(num_bytes)) - 1, 14) // 3
    return f"{num_bytes / 1000**exponent:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[exponent]}"


def _last_error(path: Path) -> list[str]:
    """Return the end of the last error of a log: that of a traceback says most."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    starts = [number for number, line in enumerate(lines) if " ERROR " in line]
    return lines[starts[-1] :][-ERROR_LINES:] if starts else []

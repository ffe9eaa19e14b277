"""Render one page with all runs, to be opened from disk, sent, and looked at without a network."""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from typing import Any

from jade.analysis.configurations import group
from jade.analysis.curves import Curves, gather_curves
from jade.analysis.importance import Importance, estimate_importance
from jade.analysis.labels import render_value, shorten_keys
from jade.analysis.measure import BEST, LAST, TEST, Measure
from jade.analysis.pictures import Album
from jade.analysis.spread import student_quantile
from jade.analysis.table import SEED, Table, render_time
from jade.errors import ConfigError

PICTURED_RUNS = 6
SHOWN_NOTES = 200
PLACE = re.compile(r"\{\{(\w+)\}\}")
# How a page says what JSON in a script element must not contain.
ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(table: Table, measures: Sequence[Measure], sources: Sequence[str]) -> str:
    """Render the page; the first of the measures is the one that is chosen when it opens.

    Raises:
        ConfigError: plotly is not installed.
    """
    plotly = _load_plotly()
    every = _list_measures(table, measures)
    chosen = every[0] if every else None
    order = _order(table, chosen)
    curves = gather_curves(table.runs, order)
    importance = estimate_importance(table.runs, table.parameters, chosen)
    title = ", ".join(dict.fromkeys(sweep.name for sweep in table.sweeps)) or ", ".join(sources)
    data = {
        "title": title,
        "generated": time.strftime("%Y-%m-%d %H:%M"),
        "version": _version(),
        "sources": list(sources),
        "chosen": 0,
        **_describe_runs(table, every),
        **_describe_rest(table, order, curves, importance),
    }
    parts = {
        "title": _escape_html(title),
        "style": _load("page.css"),
        "script": _load("page.js"),
        "data": _to_json(data),
        "curves": _to_json(curves.by_metric),
        "plotly": plotly,
    }
    # All at once: what is put in may itself look like a place.
    return PLACE.sub(lambda match: parts[match[1]], _load("page.html"))


def _list_measures(table: Table, first: Sequence[Measure]) -> list[Measure]:
    """List all that can be chosen on the page: tests, last and best values, in this order."""
    names = list(table.measures.tested)
    names += [(kind, name) for kind in (LAST, BEST) for name in table.measures.logged]
    every = [table.measures.measure(kind, name) for kind, name in names]
    return [*first[:1], *(measure for measure in every if measure not in first[:1])]


def _order(table: Table, measure: Measure | None) -> list[int]:
    """Return the numbers of all runs, the best first."""
    numbers = list(range(len(table.runs)))
    if measure is None:
        return numbers
    ranks = [measure.rank(run) for run in table.runs]
    return sorted(numbers, key=lambda number: (ranks[number], number))


def _describe_runs(table: Table, measures: Sequence[Measure]) -> Mapping[str, Any]:
    """Describe runs column by column, which takes a third of what rows would."""
    runs, labels = table.runs, shorten_keys(table.parameters)
    return {
        "parameters": [{"key": key, "label": labels[key]} for key in table.parameters],
        "measures": [
            {
                "label": m.label,
                "kind": TEST if m.is_test else m.kind,
                "name": m.name,
                "mode": m.mode,
            }
            for m in measures
        ],
        "runs": {
            "id": [run.id for run in runs],
            "name": [run.name for run in runs],
            "status": [run.status for run in runs],
            "seed": [_cell(run.config.get(SEED)) for run in runs],
            "seconds": [None if run.seconds is None else round(run.seconds, 1) for run in runs],
            "iterations": [run.iterations for run in runs],
            "epochs": [run.epochs for run in runs],
            "host": [run.host for run in runs],
            "started": [render_time(run.started) for run in runs],
            "path": [run.path for run in runs],
            "wandb": [run.wandb_id for run in runs],
            "note": ["; ".join(run.notes) or None for run in runs],
            "reason": [run.reason for run in runs],
        },
        "values": [[_cell(run.config.get(key)) for run in runs] for key in table.parameters],
        "results": [[_number(measure.of(run)) for run in runs] for measure in measures],
    }


def _describe_rest(
    table: Table, order: Sequence[int], curves: Curves, importance: Importance
) -> Mapping[str, Any]:
    numbers = {run.path: number for number, run in enumerate(table.runs)}
    groups = [[numbers[run.path] for run in configuration.runs] for configuration in group(table)]
    most = max(map(len, groups), default=1)
    notes = [f"{run.id}: {'; '.join(run.notes)}" for run in table.runs if run.notes]
    rest = [f"... and {len(notes) - SHOWN_NOTES} more"] if notes[SHOWN_NOTES:] else []
    missing = [
        f"No run has logged {name!r}, the metric of the sweep."
        for name in table.measures.missing_of_sweeps()
    ]
    return {
        "groups": groups,
        "quantiles": [0, *(student_quantile(degrees) for degrees in range(1, most))],
        "curveMetrics": list(curves.metrics),
        "curveNote": curves.note,
        "importance": {"note": importance.note, "shares": list(importance.shares)},
        "pictures": _embed_pictures(table, order),
        "notes": [*missing, *notes[:SHOWN_NOTES], *rest],
    }


def _embed_pictures(table: Table, order: Sequence[int]) -> list[dict[str, Any]]:
    album, found = Album(), list[dict[str, Any]]()
    for number in order[: 5 * PICTURED_RUNS]:
        directory = table.runs[number].directory
        images = album.embed(directory) if directory is not None else []
        if images and len(found) < PICTURED_RUNS:
            found.append({"run": number, "images": images})
    return found


def _cell(value: Any) -> Any:
    """Return a value of a parameter as the page shows and sorts it."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return render_value(value) if isinstance(value, bool) else value
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else str(value)
    return render_value(value)


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.7g}")


def _to_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.translate(ESCAPES)


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _load(name: str) -> str:
    return resources.files("jade.analysis").joinpath(name).read_text(encoding="utf-8")


def _load_plotly() -> str:
    """Load plotly.js, which the Python package brings along; the package itself is not needed."""
    try:
        path = resources.files("plotly") / "package_data" / "plotly.min.js"
        return path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ConfigError(
            "--html needs the package plotly: pip install 'jade-trainer[report]'."
        ) from error


def _version() -> str:
    try:
        return metadata.version("jade-trainer")
    except metadata.PackageNotFoundError:
        return ""

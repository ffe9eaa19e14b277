"""Render configurations with their means as a LaTeX table, in the style of booktabs."""

from collections.abc import Sequence

from jade.analysis.configurations import Configuration, Ranked, group, rank
from jade.analysis.labels import render_mean, render_value, shorten_keys
from jade.analysis.measure import Measure
from jade.analysis.spread import Spread
from jade.analysis.table import Table

SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
ARROWS = {"min": r"$\downarrow$", "max": r"$\uparrow$"}


def render_latex(table: Table, measures: Sequence[Measure], limit: int | None = None) -> str:
    """Render the best configurations, by the first of the measures.

    The best mean of each measure is bold if its interval overlaps no other: otherwise nobody
    knows whether it is the best one.
    """
    configurations = group(table)
    order = rank(configurations, measures[0])
    bold = {measure.label: _find_best(rank(configurations, measure)) for measure in measures}
    labels = shorten_keys(table.parameters)
    header = [*(escape(labels[key]) for key in table.parameters), "$n$"]
    header += [f"{escape(measure.label)} {ARROWS[measure.mode]}" for measure in measures]
    columns = "l" * len(table.parameters) + "r" * (1 + len(measures))
    lines = [
        "% Needs \\usepackage{booktabs}. Mean and 95 % interval (Student's t) over n runs.",
        "% Bold: the interval overlaps that of no other configuration.",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(header) + " \\\\",
        "\\midrule",
    ]
    for ranked in order[:limit]:
        lines += _render_row(ranked, measures, bold, table.parameters)
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _find_best(order: Sequence[Ranked]) -> Configuration | None:
    """Return the configuration that is known to be the best one, if any is."""
    measured = [ranked for ranked in order if ranked.spread is not None]
    if len(measured) < 2 or measured[0].is_tied:
        return None
    # A single run has no interval: how far off it may be, nobody knows.
    margins = [ranked.spread.margin for ranked in measured[:2] if ranked.spread]
    return None if None in margins else measured[0].configuration


def _render_row(
    ranked: Ranked,
    measures: Sequence[Measure],
    bold: dict[str, Configuration | None],
    parameters: Sequence[str],
) -> list[str]:
    configuration = ranked.configuration
    cells = [escape(render_value(configuration.values.get(key))) for key in parameters]
    cells.append(str(len(configuration.counted)))
    for measure in measures:
        is_best = bold[measure.label] is configuration
        cells.append(_render_mean(configuration.spread(measure), is_bold=is_best))
    ids = ", ".join(
        run.id if run.ended_well else f"{run.id} ({run.status})" for run in configuration.runs
    )
    return [f"% {' '.join(ids.split())}", " & ".join(cells) + " \\\\"]


def _render_mean(spread: Spread | None, *, is_bold: bool) -> str:
    if spread is None:
        return "--"
    mean, margin = render_mean(spread)
    text = f"{mean} \\pm {margin}" if margin else mean
    return f"$\\mathbf{{{text}}}$" if is_bold else f"${text}$"


def escape(text: str) -> str:
    """Escape what LaTeX would take for a command; line breaks become blanks."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(text.split()))

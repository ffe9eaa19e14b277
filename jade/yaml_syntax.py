"""Explain why a text is not YAML."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

# What counts as the end of a line to PyYAML, whose line numbers we report.
LINE_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
GLUED_ITEM = re.compile(r"\s*-[^-\s]")
GLUED_KEY = re.compile(r"\s*([\w.]+:)[^\s/]")
TWO_COLONS = re.compile(r"\s*\S+:\s.*:(\s|$)")
NO_COLON = re.compile(r"\s*\w+\s*")
# What PyYAML was doing when it gave up, and what that means.
UNFINISHED = {
    "while scanning a quoted scalar": "the quote that opens here is not closed",
    "while parsing a flow sequence": "the bracket that opens here is not closed",
    "while parsing a flow mapping": "the brace that opens here is not closed",
    "while scanning a simple key": "could not find the ':' of a key",
}


def explain(error: "yaml.YAMLError", source: str, text: str) -> str:
    """Render what is wrong, where, with the line itself and what was probably forgotten."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if mark is None:
        return f"{source}: {problem}."
    context, opened = getattr(error, "context", None), getattr(error, "context_mark", None)
    if opened is not None and context in UNFINISHED:
        # Where something began tells more than where the parser gave up.
        mark, problem = opened, UNFINISHED[context]
    lines = [*LINE_BREAK.split(text), ""]
    above = lines[mark.line - 1] if mark.line else ""
    line = lines[mark.line].rstrip()
    hint = _hint(problem, line, above)
    return f"{source}:{mark.line + 1}: {problem}.{hint}\n    {line}"


def _hint(problem: str, line: str, above: str) -> str:
    if "\t" in line:
        return " YAML does not allow tabs for indentation: use blanks."
    if GLUED_ITEM.match(line):
        return " A blank must follow each dash of a list."
    glued_key = GLUED_KEY.match(above)
    if "mapping values are not allowed" in problem and glued_key:
        return f" A blank must follow the colon of {glued_key[1]!r} in the line above."
    if "mapping values are not allowed" in problem and TWO_COLONS.match(line):
        return " Text with a colon in it needs quotes."
    if "mapping values are not allowed" in problem and NO_COLON.fullmatch(above):
        return " Does the line above lack its colon?"
    hints = {
        "mapping values are not allowed": " Is it, or the line above, indented wrongly?",
        "expected <block end>": " Keys of one mapping must start in the same column.",
        "another document": " Only one document can be used: remove the line ---.",
        "cannot start any token": " Text that begins with it needs quotes.",
    }
    return next((hint for part, hint in hints.items() if part in problem), "")

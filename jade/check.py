"""Find what would only fail once a run is being built, without building anything."""

import ast
import inspect
import textwrap
from collections.abc import Iterator

from jade.assemble import find_architecture_file
from jade.errors import ComponentError, ConfigError, suggest
from jade.resolve import Resolved
from jade.signatures import signature_of
from jade.stopping import parse_threshold


def find_problems(resolved: Resolved) -> list[str]:
    """List problems of the architecture file, the names of datasets and the stop condition."""
    problems = [*_unknown_datasets(resolved), *_architecture_problems(resolved)]
    if resolved.settings.stop_when:
        try:
            parse_threshold(resolved.settings.stop_when)
        except ConfigError as error:
            problems.append(str(error))
    return problems


def _unknown_datasets(resolved: Resolved) -> Iterator[str]:
    for name, blueprint in resolved.evaluations.items():
        dataset = blueprint.params.get("evaluate_on")
        if isinstance(dataset, str) and dataset not in resolved.data:
            where = resolved.configuration.where(("eval", name, "params", "evaluate_on"))
            yield f"{where}: there is no dataset {dataset!r}.{suggest(dataset, resolved.data)}"


def _architecture_problems(resolved: Resolved) -> Iterator[str]:
    """Compare the calls of instantiate_architecture in the trainer with the classes of the file."""
    calls = list(_architecture_calls(resolved.model.target))
    try:
        path = find_architecture_file(resolved.settings.arch_impl, resolved.index.roots)
    except ComponentError as error:
        yield str(error)
        return
    if path is None:
        if calls:
            yield (
                f"{resolved.model.target.__name__} builds the architecture {calls[0][0]!r}: "
                "give --arch_impl FILE.py."
            )
        return
    for name, keywords in calls:
        try:
            signature = signature_of(resolved.index.find_in_file(path, name))
        except ComponentError as error:
            yield f"arch_impl: {error}"
            continue
        if signature is None or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            continue
        for key in (key for key in keywords if key not in signature.parameters):
            hint = suggest(key, signature.parameters)
            yield f"arch_impl: {name}{signature} in {path} takes no {key!r}.{hint}"


def _architecture_calls(target: type) -> Iterator[tuple[str, list[str]]]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, SyntaxError, TypeError):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "instantiate_architecture"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), [k.arg for k in node.keywords if k.arg is not None]

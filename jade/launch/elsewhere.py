"""Write down which points of a sweep have no run directory in its folder, for later looks."""

from collections.abc import Iterator, Sequence
from typing import Any

from jade.analysis.sweep_facts import write_elsewhere
from jade.launch.sweep_folder import SweepFolder
from jade.launch.sweep_study import TrialView


def note_elsewhere(folder: SweepFolder, views: Sequence[TrialView]) -> None:
    """Note the runs that were reused, and those that have failed before they had a directory."""
    write_elsewhere(folder.root, list(_find(folder, views)))


def _find(folder: SweepFolder, views: Sequence[TrialView]) -> Iterator[dict[str, Any]]:
    for view in views:
        for run in view.result.get("runs", ()):
            known = {"id": run["id"], "values": dict(view.values)}
            if run.get("path"):
                yield {**known, "path": run["path"]}
            elif view.state == "fail" and not folder.run(run["id"]).root.is_dir():
                output = folder.find_output(run["id"])
                yield {**known, "reason": run.get("reason"), "output": str(output)}

"""How long the analysis of 2,000 runs takes, and how long a browser takes to open its page."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.many_runs import write_many_runs
from benchmarks.start import jade_command
from benchmarks.worker import ROOT, environment

NUM_RUNS = 2000
CSV_TARGET_S, PAGE_TARGET_S = 5.0, 3.0
# The driver of the browser is that of the tests.
sys.path.insert(0, str(ROOT / "tests"))


def measure(*, quick: bool = False) -> list[Figure]:
    """Measure whole fresh processes, and a browser that is already there."""
    num_samples = 2 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        root = write_many_runs(Path(folder, "sweep"), NUM_RUNS)
        csv, page = Path(folder, "runs.csv"), Path(folder, "page.html")
        to_csv = [_time_analysis(root, "--csv", csv) for _ in range(num_samples)]
        to_page = [_time_analysis(root, "--html", page) for _ in range(num_samples)]
        megabytes = page.stat().st_size / 1e6
        opening = _time_page(page, Path(folder, "profile"), num_samples)
    figures = [
        Figure.from_samples("analyze", "2,000 runs to CSV", to_csv, unit="s", at_most=CSV_TARGET_S),
        Figure.from_samples("analyze", "2,000 runs to a page", to_page, unit="s"),
    ]
    name = f"page of 2,000 runs ({megabytes:.1f} MB) opens"
    if opening is None:
        note = "needs chromium and chromium-driver"
        return [*figures, Figure("analyze", name, unit="s", note=note)]
    return [
        *figures,
        Figure.from_samples("analyze", name, opening[0], unit="s", at_most=PAGE_TARGET_S),
        Figure.from_samples("analyze", "  until its curves are drawn", opening[1], unit="s"),
    ]


def _time_analysis(root: Path, flag: str, target: Path) -> float:
    start = time.perf_counter()
    result = subprocess.run(
        [*jade_command(), "analyze", str(root), flag, str(target)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if result.returncode or f"{NUM_RUNS} runs" not in result.stdout:
        raise RuntimeError(result.stdout + result.stderr)
    return seconds


def _time_page(
    page: Path, profile: Path, num_samples: int
) -> tuple[list[float], list[float]] | None:
    """Time until the table can be used, and until plots are drawn that were scrolled to."""
    from browser import find_programs, start_browser

    if None in find_programs():
        return None
    ready, drawn = [], []
    with start_browser(profile) as browser:
        for _ in range(num_samples):
            browser.ask("POST", "url", {"url": "about:blank"})
            start = time.perf_counter()
            browser.open(page)
            browser.wait_for("return document.querySelectorAll('#runs tbody tr').length === 50")
            ready.append(time.perf_counter() - start)
            browser.show("#curves")
            browser.wait_for("return document.querySelectorAll('#curves .lines').length")
            drawn.append(time.perf_counter() - start)
    return ready, drawn

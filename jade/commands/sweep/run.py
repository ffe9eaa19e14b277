"""Run a sweep on this machine, without any server."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.commands.base import make_run_parser, parse
from jade.commands.confirmation import is_confirmed, show_configuration
from jade.commands.passed_signals import signals_go_to, signals_kept_back
from jade.commands.sweep import COMMANDS
from jade.commands.sweep_view import check, show_report
from jade.errors import ConfigError, raise_all
from jade.job import is_in_job

if TYPE_CHECKING:
    from jade.launch.local_sweep import Setup
    from jade.launch.slots import Slot
    from jade.launch.sweep_study import SweepStudy
    from jade.overrides import Override
    from jade.sweep import Sweep

JOURNAL = "journal.log in the folder of the sweep"


def main(tokens: list[str], program: str) -> int:
    """Run ``jade sweep run``."""
    parser = make_run_parser(program, COMMANDS["run"])
    parser.usage = f"{program} FILE [arguments]"
    own = _add_flags(parser)
    parsed = parse(parser, tokens)
    if parsed is None:
        return 0
    namespace, rest = parsed
    sweep, named = _find_sweep(rest, program)
    if sweep.method == "custom":
        raise ConfigError(
            f"{sweep.where('method')}: method: custom is decided by a scheduler of W&B; {program} "
            "runs grid, random and bayes."
        )
    _check_numbers(namespace)
    _seconds(namespace.grace)
    if namespace.reuse and sweep.grid is None:
        raise ConfigError(
            f"--reuse needs points that are known before, not method: {sweep.method}."
        )
    others = _without(own, [token for token in tokens if token != named])
    return _Command(sweep, namespace, others).run()


def _add_flags(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """Add the flags that runs do not have, and return which of them take a value."""
    group = parser.add_argument_group("the sweep")
    flags: dict[str, bool] = {}

    def add(name: str, *, metavar: str | None = None, **options: Any) -> None:
        names = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        flags.update(dict.fromkeys(names, metavar is not None))
        kind: dict[str, Any] = {"action": "store_true"} if metavar is None else {"metavar": metavar}
        group.add_argument(*names, dest=name, **kind, **options)

    add("workers", metavar="N", type=int, help="runs at a time (default: one per device or core)")
    add("devices", metavar="LIST", default="auto", help="cpu, cuda:0,cuda:1 or all")
    add("per_device", metavar="K", type=int, help="runs at a time on each device")
    add(
        "storage", metavar="URL", help=f"sqlite:///F, postgresql://..., a file (default: {JOURNAL})"
    )
    add("name", metavar="TEXT", help="of the sweep (default: its own, or that of its file)")
    add("count", metavar="N", type=int, help="take at most N points")
    add("retry", metavar="N", type=int, default=0, help="try a run that fails N times more")
    add("retry_failed", help="repeat the points that have failed before")
    add("reuse", help="take over finished runs of the same configuration from other sweeps")
    add("group_to_wandb", help="let runs log to W&B, too, in one group")
    add("confirm", help="show what will be run, and wait for a yes")
    add("no_check", help="do not try the points of the sweep first")
    add(
        "grace",
        metavar="AMOUNT",
        help="how long runs may take to stop (default: 5 minutes; 30 s for a single one)",
    )
    add("cold", help="start each run as an ordinary process")
    return flags


def _find_sweep(rest: Sequence[str], program: str) -> "tuple[Sweep, str]":
    """Return the sweep, and the argument that names it."""
    from jade.sweep import load_sweep, require_sweep

    files = [token for token in rest if token.endswith((".yml", ".yaml"))]
    found = [(sweep, path) for path in files if (sweep := load_sweep(Path(path))) is not None]
    if len(found) == 1:
        return found[0]
    if not found and len(files) == 1:
        return require_sweep(Path(files[0])), files[0]
    given = f", not {len(found)}" if found else ""
    raise ConfigError(f"{program} takes one sweep file{given}: {program} SWEEP.yml.")


def _check_numbers(namespace: argparse.Namespace) -> None:
    limits = (("workers", 1), ("per_device", 1), ("count", 1), ("retry", 0))
    raise_all(
        [
            f"--{name} must be at least {least}, not {getattr(namespace, name)}."
            for name, least in limits
            if getattr(namespace, name) is not None and getattr(namespace, name) < least
        ]
    )


def _without(own: dict[str, bool], tokens: list[str]) -> list[str]:
    """Leave out the flags of the sweep: what is left is for its runs."""
    kept = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        name, equals, _ = token.partition("=")
        if name not in own:
            kept.append(token)
        elif own[name] and not equals:
            del rest[:1]
    return kept


class _Command:
    """One call of the command."""

    def __init__(
        self, sweep: "Sweep", namespace: argparse.Namespace, others: Sequence[str]
    ) -> None:
        self._sweep = sweep
        self._given = namespace
        self._others = list(others)
        self._name = str(namespace.name or sweep.name)

    def run(self) -> int:
        from jade.envvars import exported, read_environment
        from jade.launch.sweep_setup import make_setup

        given = self._given
        # A file .env may hold where things are.
        with exported(read_environment(os.environ, None)):
            environ = dict(os.environ)
            setup = make_setup(
                self._sweep, self._others, environ, name=self._name, logs=given.group_to_wandb
            )
            slots = self._make_slots(environ)
            if self._sweep.early_stop is not None and self._sweep.early_stop.strict:
                self._note("early_terminate.strict only counts on W&B: here it is as if false")
            if is_in_job(environ):
                self._examine(setup, slots, environ)
            if not given.no_check:
                show_report(self._sweep, check(self._sweep, self._others))
            if given.confirm and not self._is_confirmed(setup, slots):
                print("nothing was started")
                return 0
            study = self._open(setup)
            with signals_kept_back() as received:
                return self._work(setup, study, slots, received)

    def _examine(self, setup: "Setup", slots: "Sequence[Slot]", environ: dict[str, str]) -> None:
        """Find out whether this machine of a cluster can run the sweep, before it takes a point."""
        from jade.launch.preflight import ROOT, Preflight
        from jade.launch.workplace import load_configurations

        found: list[str] = []
        Preflight(
            configurations=load_configurations(self._sweep, environ, found, self._others),
            folders={ROOT: setup.folder.root, "temporary files": Path(tempfile.gettempdir())},
            devices=[slot.device for slot in slots],
            environ=environ,
            command_problems=found,
            needs_login=False,
        ).require_success()

    def _make_slots(self, environ: dict[str, str]) -> "list[Slot]":
        from jade.launch.slots import CPU, THREADS, make_slots, num_cores, share_cores

        given = self._given
        devices = self._find_devices(environ)
        limits = [given.workers, self._sweep.local.max_concurrent_runs, self._num_runs()]
        limit = min([number for number in limits if number is not None], default=None)
        if given.per_device is not None:
            per_device = given.per_device
        elif devices == [CPU]:
            per_device = min(num_cores(), limit or num_cores())
        else:
            per_device = 1 if given.workers is None else -(-given.workers // len(devices))
        num_slots = min(len(devices) * per_device, limit or len(devices) * per_device)
        per_device = -(-num_slots // len(devices))
        slots = share_cores(make_slots(devices, per_device, environ)[:num_slots], environ)
        if num_slots < min(given.workers or 0, limit or 0):
            self._note(
                f"--workers {given.workers}: {num_slots} at a time, one for each of "
                f"{num_cores()} cores; --per_device {given.workers} runs more"
            )
        threads = slots[0].environ.get(THREADS, environ.get(THREADS))
        if threads != environ.get(THREADS, threads):
            self._note(
                f"{THREADS}={environ[THREADS]} is more than the cores of a run: it is {threads}"
            )
        return slots

    def _find_devices(self, environ: dict[str, str]) -> list[str]:
        from jade.launch.device_probe import find_devices
        from jade.launch.slots import ALL, AUTO, parse_devices

        wanted = ALL if self._given.devices == AUTO else self._given.devices
        if wanted != ALL and is_in_job(environ):
            # Whether they are here is a part of the preflight: it is not the user who is wrong.
            return parse_devices(wanted)
        return find_devices(wanted, environ)

    def _note(self, text: str) -> None:
        print(f"note: {text}.", flush=True)

    def _num_runs(self) -> int | None:
        num_points = self._sweep.num_runs
        return None if num_points is None else num_points * self._sweep.local.repetitions

    def _is_confirmed(self, setup: "Setup", slots: "Sequence[Slot]") -> bool:
        from jade.commands.sweep_view import describe_size

        print(f"sweep {self._name}: {describe_size(self._sweep)}")
        print(f"folder: {setup.folder.root}")
        print(f"at a time: {', '.join(slot.name for slot in slots)}")
        if setup.is_training:
            from jade.launch.sweep_setup import first_point, read_overrides
            from jade.sweep_check import PointResolver

            print("the first point:")
            overrides = read_overrides(self._sweep, self._others, setup.environ)
            show_configuration(PointResolver(overrides).resolve(first_point(self._sweep)))
        return is_confirmed("Run it?")

    def _open(self, setup: "Setup") -> "SweepStudy":
        """Open the storage, make the folder, and add what is new in the file."""
        from jade.launch.sweep_setup import make_facts, read_overrides
        from jade.launch.sweep_storage import open_storage
        from jade.launch.sweep_study import MINIMIZE, SweepStudy
        from jade.launch.sweep_worker import Worker

        sweep, folder, given = self._sweep, setup.folder, self._given
        goal = sweep.metric.goal if sweep.metric else MINIMIZE
        where = folder.find_storage(given.storage)
        place = open_storage(where)
        study = SweepStudy(place, self._name, goal, Worker())
        overrides = read_overrides(sweep, self._others, setup.environ)
        study.create(make_facts(sweep, overrides))
        folder.create(sweep.path.read_text(encoding="utf-8"), self._name, where)
        if sweep.grid is not None:
            points = list(islice(sweep.grid, sweep.run_cap))
            num_new = study.add_points(points, sweep.local.repetitions)
            if 0 < num_new < len(points):
                print(f"{num_new} of {len(points)} points are new", flush=True)
        if given.reuse:
            self._reuse(setup, study, overrides)
        if given.retry_failed:
            print(f"{study.retry_failed()} points that failed are tried again", flush=True)
        return study

    def _reuse(self, setup: "Setup", study: "SweepStudy", overrides: "list[Override]") -> None:
        """Show which finished runs are those of points that wait, and take them over."""
        from jade.launch.reuse import find_reusable

        found = find_reusable(setup, study.views(), overrides)
        for item in found:
            print(f"reused: {item}", flush=True)
        if found and self._given.confirm and not is_confirmed("Take these over?"):
            return
        for item in found:
            study.adopt(item.key, item.value, {"runs": item.runs, "reused": True})

    def _work(
        self,
        setup: "Setup",
        study: "SweepStudy",
        slots: "Sequence[Slot]",
        received: Sequence[int],
    ) -> int:
        from jade.commands.sweep_table import SweepDisplay
        from jade.launch.job_time import find_reserve, find_seconds_left
        from jade.launch.local_sweep import LocalSweep, RunnerOptions
        from jade.launch.search import BayesSearch, RandomSearch
        from jade.launch.sweep_setup import ALLOCATOR

        given, sweep = self._given, self._sweep
        searches: dict[str, Any] = {"random": RandomSearch, "bayes": BayesSearch}
        search = searches.get(sweep.method)
        grace_s = _seconds(given.grace)
        limit_s = find_seconds_left(os.environ)
        options = RunnerOptions(
            count=given.count,
            retry=given.retry,
            time_limit_s=limit_s,
            reserve_s=find_reserve(limit_s, os.environ),
            grace_s=RunnerOptions.grace_s if grace_s is None else grace_s,
            kill_delay_s=RunnerOptions.kill_delay_s if grace_s is None else grace_s,
            is_warm=not given.cold,
            server_environ={**ALLOCATOR, **{k: v for k, v in os.environ.items() if k in ALLOCATOR}},
        )
        draw = search(sweep, sweep.run_cap) if search else None
        runner = LocalSweep(setup, study, slots, options, draw)
        names = ", ".join(slot.name for slot in slots)
        print(f"sweep {self._name} in {setup.folder.root} on {names}", flush=True)
        with signals_go_to(runner), SweepDisplay(runner, study, sweep, setup.folder) as display:
            for number in received:
                runner.receive(number)
            code = runner.run()
        return display.conclude(code)


def _seconds(text: str | None) -> float | None:
    from jade.schedule import parse_seconds

    return None if text is None else parse_seconds(text, "--grace")

"""Test one run, or all runs below a folder."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.command_line import collect_overrides
from jade.commands import COMMANDS
from jade.commands.base import importing_for_good, make_parser, parse
from jade.commands.test_view import print_test, print_tests, show_log
from jade.errors import ConfigError

if TYPE_CHECKING:
    from jade.launch.many_tests import TestedRun
    from jade.launch.slots import Slot
    from jade.tester.request import Asked, Request
    from jade.tester.single import FinishedTest

TEACHING = """\
RUN is a run directory, an id, a run on W&B, or the file of a checkpoint. The evaluations of the run
are taken of that checkpoint (the best one, else the last), in eval mode and without gradients. With
a folder that holds runs, such as that of a sweep, each run that has a checkpoint is tested.

  jade test RUN --repeat 5                        five times, each with a seed of its own
  jade test RUN --data.test.params.split=valid    any value of the sections data, eval and model
  jade test RUN --data_conf D.yml                 these datasets in the place of the run's
  jade test RUN --eval_conf E.yml                 these evaluations instead of the run's
  jade test RUN --config T.yml                    sections, the options below, and lists of tests:
      multi_tests: {data.test.params.split: [valid, test], max_test_episodes: [10, 20]}

Results are in test_<time>[_TAG]/ of the run, beside all older ones: summary.json, config.yml,
test_statistics.csv (by batch), test_set_agg_statistics.csv (by metric), evaluations/ and test.log.

Exit codes: 0 finished, 1 a test has failed, 2 something is wrong with what was asked for.
"""
NAMES = ("checkpoint", "repeat", "seed", "max_test_episodes", "tag")
NUMBERS = ("repeat", "seed", "max_test_episodes")
FILES = ("data_conf", "eval_conf")
SHARED = (*NAMES, *FILES, "device", "experiments_root")


def main(tokens: list[str], program: str) -> int:
    """Run ``jade test``."""
    parsed = parse(_make_parser(program), tokens)
    if parsed is None:
        return 0
    namespace, rest = parsed
    from jade.tester.request import read_requests
    from jade.tester.target import find_folder

    if namespace.workers is not None and namespace.workers < 1:
        raise ConfigError(f"--workers must be at least 1, not {namespace.workers}.")
    requests = read_requests(_ask(namespace, rest))
    folder = find_folder(namespace.run)
    if folder is not None:
        return _test_all(folder, namespace, rest)
    if namespace.workers is not None or namespace.devices is not None:
        raise ConfigError("--workers and --devices are for folders: this is one run.")
    return _test_one(namespace, requests)


def _make_parser(program: str) -> argparse.ArgumentParser:
    usage = "RUN|CHECKPOINT|FOLDER [arguments]"
    parser = make_parser(program, usage, COMMANDS["test"], TEACHING)
    parser.add_argument("run", metavar="RUN|CHECKPOINT|FOLDER", help="what to test")

    def add(name: str, **options: Any) -> None:
        names = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        parser.add_argument(*names, dest=name, **options)

    add("checkpoint", metavar="NAME", help="best, last, an iteration or a file")
    add("repeat", metavar="K", help="measure K times, each time with another seed")
    add("seed", metavar="N", help="of the first repetition (default: derived; -1 draws one)")
    add("max_test_episodes", metavar="N", help="show each evaluation at most N batches")
    add("tag", metavar="T", help="end of the name of the test's directory")
    add("data_conf", metavar="FILE", help="YAML with descriptions of datasets")
    add("eval_conf", metavar="FILE", help="YAML with descriptions of evaluations")
    add("config", metavar="FILE", action="append", default=[], help="YAML for tests; repeatable")
    add("device", metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps (default: $DEVICE, auto)")
    add("trust_code", action="store_true", help="execute the code that the run has kept")
    add("experiments_root", metavar="DIR", help="where runs are found by their ids")
    add("workers", metavar="N", type=int, help="of a folder: runs at a time (default: 1)")
    add("devices", metavar="LIST", help="of a folder: cpu, cuda:0,cuda:1 or all")
    add("json", metavar="FILE", help="write the results to this file, too")
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any value by its dotted key; --data.test.params.n=10 does the same",
    )
    return parser


def _ask(namespace: argparse.Namespace, rest: Sequence[str]) -> "Asked":
    """Collect what the arguments ask for."""
    from jade.overrides import parse_value
    from jade.tester.request import Asked, read_given

    options = {name: getattr(namespace, name) for name in NAMES}
    for name in NUMBERS:
        if options[name] is not None:
            options[name] = parse_value(options[name])
    given = argparse.Namespace(assignments=namespace.assignments)
    overrides = collect_overrides(given, rest)
    named = [o.value for o in overrides if o.key == "config"]
    files = {name: getattr(namespace, name) for name in FILES if getattr(namespace, name)}
    return Asked(
        options=read_given(options, "argument --{}"),
        files={**files, "config": [*namespace.config, *(f for each in named for f in each)]},
        overrides=[override for override in overrides if override.key != "config"],
        environ=dict(os.environ),
    )


def _test_one(namespace: argparse.Namespace, requests: "Sequence[Request]") -> int:
    from jade.tester.target import choose_name, find_target

    target = find_target(namespace.run)
    filled = [target.fill_in(request) for request in requests]
    with importing_for_good():
        from jade.fence import TRUST
        from jade.loaded_run import load_run
        from jade.tester.single import RunTest

    finished: list[FinishedTest] = []
    try:
        run = load_run(target.run, root=namespace.experiments_root, trust_code=namespace.trust_code)
        device = choose_name(namespace.device)
        # All of them are checked before the first one begins.
        tests = [RunTest(run, request, device) for request in filled]
        with show_log():
            for test in tests:
                finished.append(test.execute())
                print_test(finished[-1])
    except ConfigError as error:
        raise type(error)(str(error).replace(TRUST, "--trust_code")) from error
    finally:
        if namespace.json is not None:
            _write_json(namespace.json, [_describe(test) for test in finished])
    return 0 if all(test.is_finished for test in finished) else 1


def _describe(test: "FinishedTest") -> dict[str, Any]:
    return {"directory": str(test.directory), **test.to_json()}


def _write_json(path: str, results: Any) -> None:
    from jade.tester.results import write_json

    write_json(Path(path), results)


def _test_all(folder: Path, namespace: argparse.Namespace, rest: Sequence[str]) -> int:
    from jade.launch.many_tests import run_tests
    from jade.tester.target import sort_runs

    runs, without = sort_runs(folder)
    slots = _make_slots(namespace, len(runs))
    done: list[TestedRun] = []

    def report(tested: "TestedRun") -> None:
        done.append(tested)
        word = "tested" if tested.code == 0 else "failed"
        print(f"{len(done)}/{len(runs)} {word}: {tested.run.id}", file=sys.stderr, flush=True)

    tested = run_tests(runs, _arguments(namespace, rest), slots, report)
    print_tests(tested, without)
    if namespace.json is not None:
        rows = [{"run": str(item.run.path), **dict(test)} for item in tested for test in item.tests]
        _write_json(namespace.json, rows)
    if all(item.is_refused for item in tested):
        return 2
    return 0 if all(item.code == 0 for item in tested) else 1


def _arguments(namespace: argparse.Namespace, rest: Sequence[str]) -> list[str]:
    """Return what each run is tested with."""
    values = {name: getattr(namespace, name) for name in SHARED}
    given = [f"--{name}={value}" for name, value in values.items() if value is not None]
    given += [f"--config={file}" for file in namespace.config]
    given += [f"--set={assignment}" for assignment in namespace.assignments]
    return [*given, *(["--trust_code"] if namespace.trust_code else []), *rest]


def _make_slots(namespace: argparse.Namespace, num_runs: int) -> "list[Slot]":
    """Return the places for tests: on each device as many as it takes to have all workers."""
    from jade.launch.device_probe import find_devices
    from jade.launch.slots import AUTO, make_slots

    devices = find_devices(namespace.devices or AUTO, os.environ)
    wanted = min(namespace.workers or len(devices), num_runs)
    devices = devices[:wanted]
    per_device = -(-wanted // len(devices))
    return make_slots(devices, per_device, os.environ)[:wanted]

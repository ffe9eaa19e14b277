"""Run the trials of a W&B sweep on this machine."""

import argparse
import dataclasses
import errno
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from jade.commands import COMMANDS
from jade.commands.base import make_parser, parse_all
from jade.commands.passed_signals import signals_go_to, signals_kept_back
from jade.envvars import exported, read_environment
from jade.errors import raise_all

if TYPE_CHECKING:
    from jade.launch.agent import Agent, AgentOptions
    from jade.launch.launcher import Launcher

TEACHING = """\
SWEEP is what `wandb sweep` or `jade sweep push` printed: entity/project/id, project/id or id.

Each trial runs in a process of its own, forked from one that has torch and your files imported.
Its output goes to console.log in its run directory. TERM, USR1, USR2 and Ctrl-C are passed on to
the trials: they write a checkpoint, W&B hands them out again, and any agent goes on with them.

Exit codes: 0 the work is done, 1 trials or this machine fail, 2 nothing was started,
            69 this machine of a cluster cannot run it, 75 stopped by a signal or --time_limit,
            130 interrupted.
"""


def main(tokens: list[str], program: str) -> int:
    """Run ``jade agent``."""
    started = time.monotonic()
    namespace = parse_all(_make_parser(program), tokens)
    if namespace is None:
        return 0
    options = _read_options(namespace)
    with ExitStack() as stack, signals_kept_back() as received:
        # As push and trainings do: what a file .env says counts here, too.
        stack.enter_context(exported(read_environment(os.environ, None)))
        if namespace.preflight:
            _examine(namespace)
            return 0
        agent = _make_agent(namespace, options, stack, started)
        with signals_go_to(agent):
            for number in received:
                agent.receive(number)
            _say(f"ready after {time.monotonic() - started:.1f} s")
            return agent.run()


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = make_parser(program, "SWEEP [arguments]", COMMANDS["agent"], TEACHING)
    parser.add_argument("sweep", metavar="SWEEP", help="entity/project/id, or its address")
    add = parser.add_argument
    add("--count", type=int, metavar="N", help="take at most N trials")
    add(
        "--devices",
        default="auto",
        metavar="LIST",
        help="cpu, cuda:0,cuda:1 or all; each trial sees only its own (default: its own choice)",
    )
    add(
        "--per_device", "--per-device", type=int, default=1, metavar="K",
        help="run K trials at a time on each device (default: 1)",
    )  # fmt: skip
    add("--threads", type=int, metavar="N", help="threads of a trial (default: cores / trials)")
    add(
        "--max_failures", "--max-failures", type=int, default=5, metavar="N",
        help="stop after N failures in a row that are alike; 0 means never (default: 5)",
    )  # fmt: skip
    add(
        "--time_limit", "--time-limit", metavar="AMOUNT",
        help="be gone after '55 minutes': trials stop a little before, with a checkpoint "
        "(default: what SLURM has left for the job)",
    )  # fmt: skip
    add(
        "--grace", default="5 minutes", metavar="AMOUNT",
        help="how long trials may take to stop after a signal (default: 5 minutes)",
    )  # fmt: skip
    add(
        "--patience", default="6 hours", metavar="AMOUNT",
        help="how long W&B may be away before the agent gives up (default: 6 hours)",
    )  # fmt: skip
    add("--preflight", action="store_true", help="examine this machine, and take no trial")
    add("--cold", action="store_true", help="start each trial as an ordinary process")
    return parser


def _read_options(namespace: argparse.Namespace) -> "AgentOptions":
    from jade.launch.agent import AgentOptions
    from jade.launch.job_time import find_reserve, find_seconds_left

    problems = [
        f"--{name} must be at least {least}, not {getattr(namespace, name)}."
        for name, least in (("count", 1), ("per_device", 1), ("threads", 1), ("max_failures", 0))
        if getattr(namespace, name) is not None and getattr(namespace, name) < least
    ]
    raise_all(problems)
    limit_s = _seconds(namespace, "time_limit")
    if limit_s is None:
        limit_s = find_seconds_left(os.environ)
    kill_delay = os.environ.get("WANDB_AGENT_KILL_DELAY", "")
    return AgentOptions(
        count=namespace.count,
        max_failures=namespace.max_failures,
        time_limit_s=limit_s,
        reserve_s=find_reserve(limit_s, os.environ),
        grace_s=_seconds(namespace, "grace") or 0.0,
        kill_delay_s=float(kill_delay) if kill_delay.isdecimal() else 30.0,
        patience_s=_seconds(namespace, "patience") or 0.0,
    )


def _seconds(namespace: argparse.Namespace, flag: str) -> float | None:
    from jade.schedule import parse_seconds

    text = getattr(namespace, flag)
    return None if text is None else parse_seconds(text, f"--{flag}")


def _examine(namespace: argparse.Namespace) -> None:
    """Say whether this machine can run the sweep, for whoever runs it by other means."""
    from jade.launch.device_probe import probe
    from jade.launch.slots import ALL, parse_devices
    from jade.launch.wandb_sweep import WandbSweep
    from jade.launch.workplace import make_workplace, remove_if_unused
    from jade.remote.reference import parse_sweep

    environ = dict(os.environ)
    num_cuda = probe(environ)["count"] if namespace.devices == ALL else 0
    devices = parse_devices(namespace.devices, num_cuda)
    sweep = WandbSweep(parse_sweep(namespace.sweep, environ), environ)
    workplace = make_workplace(sweep, devices, environ, Path.cwd())
    try:
        workplace.preflight.require_success()
    finally:
        remove_if_unused(workplace.sweep_folder)
    print(f"this machine can run the sweep {sweep}")


def _make_agent(
    namespace: argparse.Namespace, options: "AgentOptions", stack: ExitStack, started: float
) -> "Agent":
    from jade.launch.agent import Agent
    from jade.launch.device_probe import probe
    from jade.launch.slots import ALL, make_slots, parse_devices
    from jade.launch.wandb_sweep import WandbSweep
    from jade.launch.workplace import make_workplace
    from jade.remote.reference import parse_sweep

    environ, folder = dict(os.environ), Path.cwd()
    # Whether they are here is a part of the preflight.
    num_cuda = probe(environ)["count"] if namespace.devices == ALL else 0
    devices = parse_devices(namespace.devices, num_cuda)
    reference = parse_sweep(namespace.sweep, environ)
    launcher = _start_helpers(reference.sweep_id, environ, stack, is_warm=not namespace.cold)
    sweep = WandbSweep(reference, environ)
    workplace = make_workplace(sweep, devices, environ, folder)
    for note in workplace.notes:
        _say(f"note: {note}")
    workplace.preflight.require_success()
    slots = make_slots(devices, namespace.per_device, environ, namespace.threads)
    names = ", ".join(slot.name for slot in slots)
    _say(f"sweep {sweep} ({sweep.url}) on {names}")
    options = _without_startup(options, time.monotonic() - started)
    return Agent(sweep, slots, options, workplace, launcher, _say)


def _say(text: str) -> None:
    """Print a line; where nobody can read it any more, trials go on all the same."""
    try:
        print(text, flush=True)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EPIPE):
            # A full disk, for one, may have room later.
            return
        # A closed terminal takes errors neither. What comes later goes nowhere, and raises no more.
        lost = (sys.stdout, sys.stderr) if error.errno == errno.EIO else (sys.stdout,)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in lost:
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _without_startup(options: "AgentOptions", took_s: float) -> "AgentOptions":
    """Let the time that it took until now count: the end of a job does not wait."""
    if options.time_limit_s is None:
        return options
    return dataclasses.replace(options, time_limit_s=options.time_limit_s - took_s)


def _start_helpers(
    sweep_id: str, environ: dict[str, str], stack: ExitStack, *, is_warm: bool
) -> "Launcher":
    """Start the processes that trials need; they import while we ask W&B about the sweep."""
    from jade.launch.launcher import WANDB_MODULES, WARM_MODULES, Launcher
    from jade.launch.wandb_service import WandbService
    from jade.launch.workplace import make_sweep_folder, name_server_log, remove_if_unused
    from jade.loggers import shared_service
    from jade.remote.client import require_login

    require_login(environ)
    # It ends when this process and all trials have: wandb minds if it is gone before.
    service = WandbService(environ)
    modules = (*WARM_MODULES, *WANDB_MODULES) if is_warm else ()
    # Not before: another agent that ends removes it as long as it is empty.
    sweep_folder = make_sweep_folder(sweep_id, environ, Path.cwd())
    log_path = name_server_log(sweep_folder)
    stack.callback(remove_if_unused, sweep_folder, log_path)
    launcher = Launcher(log_path, modules, [service.leash])
    stack.callback(launcher.close)
    token = service.token()
    if token is not None:
        os.environ[shared_service.SERVICE] = environ[shared_service.VARIABLE] = token
    return launcher

"""The flags that all commands of `jade submit` share: resources, folders, and how to submit."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jade.command_line import add_settings, collect_overrides
from jade.commands.base import make_parser
from jade.errors import ConfigError, closest

if TYPE_CHECKING:
    from jade.launch.submission import Wish
    from jade.overrides import Override
    from jade.resources import Resources

PROFILE = "JADE_SLURM_PROFILE"
PROFILE_FILE = "slurm.yml"
# Flags whose names differ from the keys of a section `slurm`.
RESOURCES = {
    **dict.fromkeys(("time", "gpus", "cpus", "mem", "partition", "account", "env_file", "scratch")),
    "setup": "setup",
    "sbatch_arg": "sbatch_args",
    "warn": "warn_s",
}
EPILOG = """\
What each job gets can also stand in a section `slurm:` of the YAML files, with the same names
({keys}), and in a profile that describes a site once: --profile FILE, $JADE_SLURM_PROFILE, or
slurm.yml in this folder. Who wins: profile < section < flags; setup and sbatch_args add up.

The project is copied as it is now, so later edits do not reach jobs that wait. A job that is told
to end (time limit, preemption, scontrol requeue) writes a checkpoint, is queued again and goes on.
`jade jobs` shows what becomes of it.
"""


class JobParser:
    """Takes the flags of a submission out of a command line; what is left is for the runs.

    Args:
        program: What was typed so far.
        usage: What follows.
        text: What the command does.
    """

    def __init__(self, program: str, usage: str, text: str) -> None:
        from jade.resources import KEYS

        self._program = program
        self._parser = make_parser(program, usage, text, EPILOG.format(keys=", ".join(KEYS)))
        self._takes_value: dict[str, bool] = {"-h": False, "--help": False}
        self._add_resources()
        self._add_submission()

    def add(self, name: str, *, metavar: str | None = None, **options: Any) -> None:
        """Add a flag, spelled with ``_`` or ``-``; without a metavar it is a switch."""
        names = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        self._takes_value.update(dict.fromkeys(names, metavar is not None))
        kind: dict[str, Any] = {"action": "store_true"} if metavar is None else {"metavar": metavar}
        self._parser.add_argument(*names, dest=name, **{**kind, **options})

    def _add_resources(self) -> None:
        add = self.add
        add("time", metavar="TIME", help="10:00:00, 2-12:00:00 (days-...) or '10 hours'")
        add("gpus", metavar="N", help="GPUs of a job, or kind:N (default: 0)")
        add("cpus", metavar="N", help="cores of a job")
        add("mem", metavar="SIZE", help="memory of a job: 16G")
        add("partition", metavar="NAME", help="part of the cluster")
        add("account", metavar="NAME", help="who pays")
        add("env_file", metavar="FILE", help="shell file of variables that the job reads")
        add("setup", metavar="COMMAND", action="append", help="runs first: 'module load cuda'")
        add("sbatch_arg", metavar="ARG", action="append", help="for sbatch: --sbatch_arg=--nice=10")
        add("scratch", metavar="DIR", help="temporary files of the machine (default: $TMPDIR)")
        add("warn", metavar="S", help="seconds before the end to stop in (default: 120)")
        add("profile", metavar="FILE", help="YAML that describes the site")

    def _add_submission(self) -> None:
        from jade.launch.job_folder import DEFAULT_ROOT
        from jade.launch.job_script import SCHEDULERS

        add = self.add
        add("print", help="print the script, and do nothing")
        add("job_name", metavar="TEXT", help="shown in the queue (default: of what is run)")
        add("logs", metavar="DIR", help="where output goes (default: with the submission)")
        add("jobs_root", metavar="DIR", default=DEFAULT_ROOT, help="where submissions are kept")
        add("replace", metavar="N", type=int, default=3, help="make good N failures (default: 3)")
        add(
            "scheduler",
            metavar="{" + ",".join(SCHEDULERS) + "}",
            choices=SCHEDULERS,
            default=SCHEDULERS[0],
            help="who runs it (default: slurm); for the others the command to type is printed",
        )

    def parse(self, tokens: Sequence[str]) -> tuple[argparse.Namespace, list[str]] | None:
        """Return the flags, and what is left of the arguments; None if the help was asked for."""
        own, others = self._divide(list(tokens))
        try:
            namespace = self._parser.parse_args(own)
        except SystemExit:
            return None
        if namespace.replace < 0:
            raise ConfigError(f"--replace must be at least 0, not {namespace.replace}.")
        return namespace, others

    def _divide(self, tokens: list[str]) -> tuple[list[str], list[str]]:
        own: list[str] = []
        others: list[str] = []
        while tokens:
            token = tokens.pop(0)
            name, equals, _ = token.partition("=")
            if name not in self._takes_value:
                others.append(token)
                continue
            own.append(token)
            if self._takes_value[name] and not equals and tokens:
                # With an equals sign, so that a value may begin with dashes.
                own[-1] = f"{token}={tokens.pop(0)}"
        return own, others

    @property
    def flags(self) -> list[str]:
        """Return all flags of the submission."""
        return list(self._takes_value)


def read_run_arguments(others: Sequence[str], parser: JobParser) -> "list[Override]":
    """Read what is left as arguments of runs; a flag that nobody knows is refused here."""
    from jade.command_line import ArgumentParser
    from jade.settings import ALIASES, FIELDS, SECTIONS

    run_parser = ArgumentParser(allow_abbrev=False, add_help=False)
    add_settings(run_parser)
    overrides = collect_overrides(*run_parser.parse_known_args(list(others)))
    known = {*FIELDS, *SECTIONS, *ALIASES}
    for override in overrides:
        first = str(override.path[0]).replace("-", "_")
        if first not in known:
            meant = closest(first, {flag.lstrip("-") for flag in parser.flags} | known)
            hint = f" Did you mean --{meant}?" if meant else ""
            raise ConfigError(f"There is no flag --{override.key}.{hint}")
    return overrides


def read_resources(
    namespace: argparse.Namespace, sections: Sequence[tuple[str, Any]]
) -> "Resources":
    """Put together what the profile, the files and the flags say."""
    from jade import resources

    flags = {
        key or name: getattr(namespace, name)
        for name, key in RESOURCES.items()
        if getattr(namespace, name) is not None
    }
    # A flag has one place, a section has another: each problem names its own.
    given = [(f"--{_flag_of(key)}", {key: value}) for key, value in flags.items()]
    found = resources.read_resources([*_read_profile(namespace.profile), *sections, *given])
    if found.env_file is None:
        return found
    path = Path(found.env_file).expanduser().absolute()
    if not path.is_file():
        raise ConfigError(f"env_file: there is no file {path}.")
    import dataclasses

    return dataclasses.replace(found, env_file=str(path))


def _flag_of(key: str) -> str:
    return next(name for name, other in RESOURCES.items() if key in (other, name))


def _read_profile(wanted: str | None) -> list[tuple[str, Any]]:
    from jade.resources import SECTION
    from jade.yaml_file import load_mapping

    named = wanted or os.environ.get(PROFILE)
    path = Path(named or PROFILE_FILE)
    if not path.is_file():
        if named is None:
            return []
        flag = "--profile" if wanted else PROFILE
        raise ConfigError(f"{flag}: there is no file {path}.")
    values = load_mapping(path).values
    if set(values) == {SECTION}:
        values = values[SECTION]
    return [(str(path), values)]


def carry_out(wish: "Wish", namespace: argparse.Namespace) -> int:
    """Print the script, or submit it and say what to type next."""
    from jade.launch.submission import Submission

    submission = Submission(wish, os.environ)
    if namespace.print:
        print(submission.render(), end="")
        return 0
    submission.check()
    submission.prepare()
    if wish.scheduler != "slurm":
        print(f"written to {submission.folder.root}; to submit it:")
        print(f"  {submission.command_by_hand()}")
        return 0
    job_id = submission.submit()
    what = "1 job" if wish.num_elements == 1 else f"an array of {wish.num_elements} jobs"
    print(f"submitted {what}: {job_id} ({submission.folder.name})")
    print(f"  script  {submission.job.script_path}")
    print(f"  logs    {submission.job.logs}")
    print(f"  jade jobs {job_id}           how it stands")
    print(f"  jade jobs cancel {job_id}    write checkpoints, then end it")
    return 0

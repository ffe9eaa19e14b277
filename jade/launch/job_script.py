"""Render the script of a job, for SLURM, LSF or a shell: values in, text out."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jade.errors import MachineError, RunInUseError
from jade.resources import Resources
from jade.signals import EXIT_INTERRUPTED, EXIT_PREEMPTED

SLURM, LSF, SSH = "slurm", "lsf", "ssh"
SCHEDULERS = (SLURM, LSF, SSH)
# Stands in arguments and variables for the number of the element of the array.
INDEX = "\0index\0"
# Names an element for as long as its submission lives: queued again or elsewhere, it is the same.
KEY = "JADE_JOB_KEY"
# Says how many seconds before its end a job is told of it; see `jade.launch.job_time`.
RESERVE = "JADE_RESERVE_S"
MINUTE_S = 60
# How long an element waits whose run another process has, and how often in a row.
IN_USE_PAUSE_S, MAX_IN_USE = 60, 60


@dataclass(frozen=True, kw_only=True)
class Job:
    """An array of jobs that do the same, each with a number of its own.

    Attributes:
        name: What the queue shows.
        command: What is run; `INDEX` in it is the number of the element.
        folder: Where the submission keeps its files.
        logs: Where the output goes.
        working: The working directory.
        programs: The folder of the programs of this Python, put in front of ``PATH``.
        resources: What each element gets.
        num_elements: How many there are.
        at_a_time: How many of them run at a time, at most.
        variables: Set in the environment; `INDEX` as above.
        budget: How many failures of elements are followed by another try, in all.
        preflight: Says by its exit code whether the machine can run the command, if the command
            does not find out by itself.
        replaces_failed: Whether exit code 1 is a failure of the element, and not of its trials.
        stop_signal: Tells the command to write a checkpoint and end.
        origin: The command that was typed.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    logs: Path
    working: Path
    programs: Path
    resources: Resources
    num_elements: int = 1
    at_a_time: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    budget: int = 3
    preflight: tuple[str, ...] = ()
    replaces_failed: bool = False
    stop_signal: str = "USR1"
    origin: str = ""

    @property
    def script_path(self) -> Path:
        """Where the script is kept."""
        return self.folder / "job.sh"


def render(job: Job, scheduler: str = SLURM) -> str:
    """Render the script that each element of the array runs."""
    headers = {SLURM: _slurm_header, LSF: _lsf_header, SSH: _ssh_header}
    identities = {SLURM: SLURM_IDENTITY, LSF: LSF_IDENTITY, SSH: SSH_IDENTITY}
    ends = {SLURM: SLURM_END, LSF: LSF_END, SSH: SSH_END}
    parts = [
        "#!/bin/bash",
        *headers[scheduler](job),
        *([f"\n# Written by: {job.origin}"] if job.origin else []),
        SIGNALS.format(stop_signal=job.stop_signal),
        identities[scheduler],
        f"folder={shlex.quote(str(job.folder))}",
        START.format(scratch=_scratch(job)),
        *_environment(job),
        f"cd {shlex.quote(str(job.working))} || exit {MachineError.exit_code}",
        RUN.format(
            command=_render_command(job.command),
            preflight=_render_command(job.preflight) or "true",
            keeps_quiet=_keeps_quiet(job),
            **CODES,
        ),
        IN_USE.format(pause_s=IN_USE_PAUSE_S, max_in_use=MAX_IN_USE, **CODES),
        ends[scheduler].format(
            budget=job.budget,
            script=shlex.quote(str(job.script_path)),
            replaces_failed=str(job.replaces_failed).lower(),
            **CODES,
        ),
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _slurm_header(job: Job) -> Iterator[str]:
    wanted = job.resources
    last = f"0-{job.num_elements - 1}" if job.num_elements > 1 else "0"
    throttle = f"%{job.at_a_time}" if job.at_a_time else ""
    lines: dict[str, object | None] = {
        "job-name": job.name,
        "array": f"{last}{throttle}",
        # A sign of percent in the path itself is doubled.
        "output": f"{str(job.logs).replace('%', '%%')}/%x-%A_%a.log",
        "open-mode": "append",
        "requeue": "",
        "signal": f"B:USR1@{_warn_s(wanted)}",
        "export": "ALL",
        "time": wanted.time,
        "gres": f"gpu:{wanted.gpus}" if wanted.num_gpus else None,
        "cpus-per-task": wanted.cpus,
        "mem": wanted.mem,
        "partition": wanted.partition,
        "account": wanted.account,
    }
    for name, value in lines.items():
        if value is not None:
            yield f"#SBATCH --{name}" + (f"={_quote(value)}" if value != "" else "")
    for argument in wanted.sbatch_args:
        yield f"#SBATCH {argument}"


def _warn_s(wanted: Resources) -> int:
    """Return when a job is told that its time is over: at half of a short time, at the latest."""
    return wanted.warn_s if wanted.time_s is None else min(wanted.warn_s, wanted.time_s // 2)


def _lsf_header(job: Job) -> Iterator[str]:
    wanted = job.resources
    throttle = f"%{job.at_a_time}" if job.at_a_time else ""
    seconds = wanted.time_s
    hours, minutes = divmod(-(-(seconds or 0) // MINUTE_S), 60)
    lines: dict[str, object | None] = {
        # Elements are counted from 1.
        "J": f"{job.name}[1-{job.num_elements}]{throttle}",
        "o": f"{job.logs}/{job.name}-%J_%I.log",
        "r": "",
        "Q": EXIT_PREEMPTED,
        "wa": "USR1",
        "wt": -(-wanted.warn_s // MINUTE_S),
        "W": f"{hours}:{minutes:02d}" if seconds else None,
        "gpu": f"num={wanted.num_gpus}" if wanted.num_gpus else None,
        "n": wanted.cpus,
        "R": "span[hosts=1]" if wanted.cpus else None,
        "M": wanted.mem,
        "q": wanted.partition,
        "P": wanted.account,
    }
    for name, value in lines.items():
        if value is not None:
            yield f"#BSUB -{name}" + (f" {_quote(value)}" if value != "" else "")


def _ssh_header(job: Job) -> Iterator[str]:
    yield f"# bash {shlex.quote(job.script_path.name)} NUMBER, from 0 to {job.num_elements - 1}"


def _quote(value: object) -> str:
    """Quote a value as sbatch and bsub understand it."""
    text = str(value)
    if not any(character in text for character in " \t\"'#[&*"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _scratch(job: Job) -> str:
    wanted = job.resources.scratch
    # Variables such as $LOCAL_SCRATCH are those of the machine that runs the job.
    return "${TMPDIR:-/tmp}" if wanted is None else wanted.replace('"', '\\"')


def _environment(job: Job) -> Iterator[str]:
    wanted = job.resources
    if wanted.env_file is not None:
        path = shlex.quote(wanted.env_file)
        yield f"set -a; . {path} || exit {MachineError.exit_code}; set +a"
    yield from wanted.setup
    yield f'export PATH={shlex.quote(str(job.programs))}:"$PATH"'
    yield f"export {KEY}={_fill_in(f'{job.folder.name}_{INDEX}')}"
    yield f"export {RESERVE}={_warn_s(wanted)}"
    for name, value in job.variables.items():
        yield f"export {name}={_fill_in(value)}"


def _render_command(tokens: tuple[str, ...]) -> str:
    return " ".join(_fill_in(token) for token in tokens)


def _fill_in(text: str) -> str:
    """Quote a text for a shell, with the number of the element where it belongs."""
    quoted = [shlex.quote(part) if part else "" for part in text.split(INDEX)]
    return '"$task"'.join(quoted) or "''"


def _keeps_quiet(job: Job) -> str:
    """Return what is to be done where the program's exit code does not say that it was stopped."""
    return f'\n    [ -z "$asked" ] || code={EXIT_PREEMPTED}' if job.stop_signal == "TERM" else ""


CODES = {
    "preempted": str(EXIT_PREEMPTED),
    "interrupted": str(EXIT_INTERRUPTED),
    "unfit": str(MachineError.exit_code),
    "in_use": str(RunInUseError.exit_code),
}

SLURM_IDENTITY = """
# Not SLURM_JOB_ID: that of the last element is the id of the whole array.
job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
task=$SLURM_ARRAY_TASK_ID
node=$SLURMD_NODENAME
start=$((${SLURM_RESTART_COUNT:-0} + 1))"""

LSF_IDENTITY = """
job=${LSB_JOBID}_${LSB_JOBINDEX}
# LSF counts from 1, JADE from 0.
task=$((LSB_JOBINDEX - 1))
node=$(hostname)
start=1"""

SSH_IDENTITY = """
task=${1:?which element of the array: a number}
job=ssh_$task
node=$(hostname)
start=1"""

START = """\
echo "job $job on $node, start $start, $(date '+%F %T')"

# Temporary files of this element, and of nobody else.
outer=${{TMPDIR-}} trouble=
scratch={scratch}/jade-$job
mkdir -p "$scratch" || trouble="$scratch cannot be made"
export TMPDIR=$scratch
# For what is started from here, and is not this element.
leave_scratch() {{ if [ -n "$outer" ]; then export TMPDIR="$outer"; else unset TMPDIR; fi; }}
"""

SIGNALS = """
# First of all: a job that is started again too early may be told to end as soon as it begins.
# A warning (USR1) or a wish to end (USR2) reaches this shell only; the program is told. When a job
# is ended, SLURM sends TERM to all of its processes by itself.
child= asked= told=
# Once: at a second time it would end without a checkpoint.
pass_on() {{ [ -z "$child" ] || [ -n "$told" ] || {{ told=yes; kill -{stop_signal} "$child"; }}; }}
tell() {{ [ "$asked" = cancel ] || asked=$1; pass_on; }}
trap 'tell warning' USR1
trap 'tell cancel' USR2
trap 'asked=${{asked:-term}}; told=yes' TERM"""

RUN = """
if [ -n "$trouble" ]; then
    echo "$node was not found fit: $trouble"
    code={unfit}
elif [ -e "$folder/broken/$node" ]; then
    echo "$node is known to be broken: $folder/broken/$node"
    code={unfit}
elif [ -n "$asked" ]; then
    code={preempted}
elif {preflight}; code=$?; [ "$code" != 0 ]; then
    echo "$node was not found fit: exit code $code"
elif [ -n "$asked" ]; then
    code={preempted}
else
    {command} &
    child=$!
    # A signal may have come between these two lines.
    [ -z "$asked" ] || pass_on
    while :; do
        wait "$child"; code=$?
        kill -0 "$child" 2> /dev/null || break
    done
    # The last wait may have been cut short by a signal.
    wait "$child" 2> /dev/null; again=$?
    [ "$again" = 127 ] || code=$again{keeps_quiet}
    child=
fi
mkdir -p "$folder/ends"
echo "$job $code $node $(date +%s)" > "$folder/ends/$task"
"""

IN_USE = """\
# Another process has the run, such as one that is just ending: time helps, and nothing has failed.
wait_for_run() {{
    mkdir -p "$folder/in_use"
    echo "$start" >> "$folder/in_use/$task"
    if [ "$(wc -l < "$folder/in_use/$task")" -gt {max_in_use} ]; then
        echo "job $job has waited for its run too often: see who has it"
        return 1
    fi
    # In the background: a signal is heeded at once.
    sleep {pause_s} &
    wait $!
    [ "$asked" != cancel ] || echo "job $job is cancelled"
    [ "$asked" != cancel ]
}}
[ "$code" = {in_use} ] || rm -f -- "$folder/in_use/$task"
"""

SLURM_END = """\
queue_again() {{
    # What SLURM is ending already, it has plans for.
    case $(squeue --noheader --jobs="$job" --format=%T 2> /dev/null) in
        RUNNING | '') ;;
        *) return ;;
    esac
    echo "job $job is queued again: $1"
    scontrol requeue "$job" || echo "to go on: scontrol requeue $job"
}}

# Starts this element on another machine; those that are broken are left out from now on.
run_elsewhere() {{
    mkdir -p "$folder/broken"
    if (set -o noclobber; echo "$job, see its log" > "$folder/broken/$node") 2> /dev/null; then
        echo "$node cannot run this and takes no more: $folder/broken/$node"
    fi
    broken=$(ls "$folder/broken" | paste -sd, -)
    if [ "$(ls "$folder/broken" | wc -l)" -gt {budget} ]; then
        echo "too many machines cannot run this: is it the machines?"
        return
    fi
    scontrol update JobId="$SLURM_ARRAY_JOB_ID" ExcNodeList="$broken" > /dev/null 2>&1
    leave_scratch
    new=$(sbatch --parsable --array="$task" --exclude="$broken" {script}) || return
    echo "$new" >> "$folder/job_ids"
    echo "job $job goes on elsewhere as ${{new}}_$task"
}}

case $code in
    0 | 2) ;;
    {interrupted})
        # Somebody wants it to end.
        echo "job $job was interrupted"
        ;;
    *)
        if [ "$asked" = cancel ]; then
            echo "job $job is cancelled"
        elif [ "$code" = {unfit} ]; then
            run_elsewhere
        elif [ "$code" = {preempted} ] || [ -n "$asked" ]; then
            queue_again "its work goes on"
        elif [ "$code" = {in_use} ]; then
            ! wait_for_run || queue_again "another process has its run"
        elif [ "$code" != 1 ] || {replaces_failed}; then
            mkdir -p "$folder/failures"
            echo "$code" > "$folder/failures/$job-$start"
            failures=$(ls "$folder/failures" | wc -l)
            if [ "$failures" -le {budget} ]; then
                queue_again "it failed with $code, failure $failures of {budget} that are made good"
            else
                echo "job $job failed with $code; $failures failures are too many"
            fi
        fi
        ;;
esac
# Only what is ours, and only when nothing is left to do with it.
[ "$code" != 0 ] || rm -rf -- "$scratch"
exit "$code"
"""

LSF_END = """\
if [ "$code" = {in_use} ] && wait_for_run; then
    echo "job $job is queued again: another process has its run"
    code={preempted}
fi
# Exit code {preempted} queues it again (-Q).
[ "$code" != {preempted} ] || [ "$asked" != cancel ] || code=130
[ "$code" != 0 ] || rm -rf -- "$scratch"
exit "$code"
"""

SSH_END = """\
if [ "$code" = {in_use} ] && [ -z "$asked" ] && wait_for_run && [ -z "$asked" ]; then
    echo "job $job starts again: another process had its run"
    leave_scratch
    exec bash {script} "$task"
fi
[ "$code" != 0 ] || rm -rf -- "$scratch"
exit "$code"
"""

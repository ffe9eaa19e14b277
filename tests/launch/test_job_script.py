"""The text of job scripts, and what bash makes of it."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jade.launch import job_time
from jade.launch.job_script import (
    INDEX,
    LSF,
    MAX_IN_USE,
    RESERVE,
    SCHEDULERS,
    SLURM,
    SSH,
    Job,
    render,
)
from jade.resources import Resources

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "slurm").glob("*.sbatch"))


def make_job(**more):
    values = {
        "name": "digits",
        "command": ("jade", "sweep", "run", "a b.yml"),
        "folder": Path("/p/jobs/digits-1"),
        "logs": Path("/p/jobs/digits-1/logs"),
        "working": Path("/p/jobs/digits-1/code"),
        "programs": Path("/env/bin"),
        "resources": Resources(),
        **more,
    }
    return Job(**values)


def header(job, scheduler=SLURM, mark="#SBATCH "):
    lines = render(job, scheduler).splitlines()
    return [line.removeprefix(mark) for line in lines if line.startswith(mark)]


def test_header_asks_for_what_was_wanted():
    resources = Resources(
        time="10:00:00",
        gpus="a100:2",
        cpus=8,
        mem="16G",
        partition="gpu",
        account="me",
        sbatch_args=("--nice=10", "--constraint='a b'"),
    )
    assert header(make_job(resources=resources, num_elements=300, at_a_time=8)) == [
        "--job-name=digits",
        "--array=0-299%8",
        "--output=/p/jobs/digits-1/logs/%x-%A_%a.log",
        "--open-mode=append",
        "--requeue",
        "--signal=B:USR1@120",
        "--export=ALL",
        "--time=10:00:00",
        "--gres=gpu:a100:2",
        "--cpus-per-task=8",
        "--mem=16G",
        "--partition=gpu",
        "--account=me",
        "--nice=10",
        "--constraint='a b'",
    ]


def test_short_job_is_warned_at_half_of_its_time():
    assert "--signal=B:USR1@30" in header(make_job(resources=Resources(time="1:00")))


def test_blanks_and_signs_in_paths_are_quoted():
    text = render(make_job(logs=Path("/my project/50%/logs")))
    assert '#SBATCH --output="/my project/50%%/logs/%x-%A_%a.log"' in text
    assert "    jade sweep run 'a b.yml' &\n" in text


def test_number_of_the_element_stands_where_it_belongs():
    text = render(make_job(command=("run", "--index", INDEX), variables={"ID": f"a b-{INDEX}"}))
    assert '    run --index "$task" &\n' in text
    assert "export ID='a b-'\"$task\"\n" in text


def test_only_the_element_is_queued_again_and_not_the_whole_array():
    text = render(make_job())
    assert "job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\n" in text
    assert "SLURM_JOB_ID}" not in text
    assert 'scontrol requeue "$job"' in text


def test_setup_and_environment_come_before_the_program():
    resources = Resources(env_file="/site/env", setup=("module load cuda", "export A=1"))
    text = render(make_job(resources=resources))
    places = [
        text.index(part)
        for part in (". /site/env", "module load cuda", "export A=1", "export PATH=", "cd ", "jade")
        if part != "jade"
    ]
    assert places == sorted(places)


def test_lsf_counts_from_one_and_queues_again_by_exit_code():
    resources = Resources(time="10:30:00", gpus=1, cpus=8, mem="16G", partition="gpu", account="me")
    job = make_job(resources=resources, num_elements=300, at_a_time=8)
    assert header(job, LSF, "#BSUB ") == [
        '-J "digits[1-300]%8"',
        "-o /p/jobs/digits-1/logs/digits-%J_%I.log",
        "-r",
        "-Q 75",
        "-wa USR1",
        "-wt 2",
        "-W 10:30",
        "-gpu num=1",
        "-n 8",
        '-R "span[hosts=1]"',
        "-M 16G",
        "-q gpu",
        "-P me",
    ]
    assert "task=$((LSB_JOBINDEX - 1))\n" in render(job, LSF)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_script_is_bash(scheduler):
    text = render(make_job(command=("run", INDEX)), scheduler)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert text.startswith("#!/bin/bash\n")


@pytest.mark.parametrize(("code", "is_kept"), [(0, False), (3, True)])
def test_script_for_ssh_runs_an_element_and_cleans_up_after_success(tmp_path, code, is_kept):
    folder = tmp_path / "job folder"
    folder.mkdir()
    command = f'echo "$1 $A" > "{tmp_path}/seen"; exit {code}'
    job = make_job(
        command=("bash", "-c", command, "bash", INDEX),
        folder=folder,
        working=folder,
        variables={"A": f"number-{INDEX}"},
    )
    environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-s", "4"], input=render(job, SSH), text=True, env=environ, check=False
    )
    assert done.returncode == code
    assert (tmp_path / "seen").read_text() == "4 number-4\n"
    assert (folder / "ends" / "4").read_text().startswith(f"ssh_4 {code} ")
    assert (tmp_path / "jade-ssh_4").exists() == is_kept


class FakeNode:
    """Runs scripts for SLURM as a node does, with commands that only note what they are asked."""

    def __init__(self, root):
        self.root = root
        self.folder = root / "jobs" / "digits-1"
        self.folder.mkdir(parents=True)
        self.programs = root / "bin"
        self.programs.mkdir()
        self.fake("scontrol")
        self.fake("sleep")
        self.fake("squeue", "echo RUNNING")
        self.fake("sbatch", f'echo "TMPDIR=${{TMPDIR-unset}}" >> "{root}/calls"; echo 4712')

    def fake(self, name, then=":"):
        path = self.programs / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.root}/calls"\n{then}\n')
        path.chmod(0o755)

    def start(self, command, *, task=4, array=4711, tmpdir=None, scheduler=SLURM, **more):
        job = make_job(
            command=("bash", "-c", command),
            folder=self.folder,
            working=self.folder,
            programs=self.programs,
            **more,
        )
        environ = {
            "PATH": "/usr/bin:/bin",
            "SLURM_ARRAY_JOB_ID": str(array),
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURMD_NODENAME": "n1",
            "LSB_JOBID": str(array),
            "LSB_JOBINDEX": str(task + 1),
            **({} if tmpdir is None else {"TMPDIR": str(tmpdir)}),
        }
        job.script_path.write_text(render(job, scheduler))
        return subprocess.Popen(
            ["bash", job.script_path, *([str(task)] if scheduler == SSH else [])],
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            cwd=self.root,
        )

    def run(self, command, **more):
        """Run a command as an element of an array, and return the exit code and what was said."""
        process = self.start(command, **more)
        said, _ = process.communicate(timeout=20)
        return process.returncode, said

    def calls(self):
        """Return what the commands of SLURM were asked, all but how the job is."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [line for line in lines if not line.startswith("squeue")]


@pytest.fixture
def node(tmp_path):
    return FakeNode(tmp_path)


def test_element_has_the_same_key_wherever_it_runs(node):
    command = 'echo "key=$JADE_JOB_KEY"'
    for array in (4711, 4712):
        code, said = node.run(command, array=array, tmpdir=node.root)
        assert (code, "key=digits-1_4\n" in said) == (0, True), said


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("time", "seconds"), [("10:00:00", 600), ("10:00", 300)])
def test_program_is_told_how_much_time_is_kept_for_checkpoints(scheduler, time, seconds):
    text = render(make_job(resources=Resources(time=time, warn_s=600)), scheduler)
    assert f"\nexport JADE_RESERVE_S={seconds}\n" in text
    assert RESERVE == job_time.RESERVE


@pytest.mark.parametrize("outer", ["set", "unset"])
def test_job_that_runs_elsewhere_has_no_folder_in_that_of_the_former_one(node, outer):
    tmpdir = node.root if outer == "set" else None
    scratch = node.root / "scratch"
    code, said = node.run("exit 69", tmpdir=tmpdir, resources=Resources(scratch=str(scratch)))
    assert code == 69
    assert "job 4711_4 goes on elsewhere as 4712_4" in said
    assert f"TMPDIR={tmpdir or 'unset'}" in node.calls()


def test_machine_without_a_place_for_temporary_files_is_not_fit(node):
    (node.root / "taken").touch()
    code, said = node.run("echo begun", resources=Resources(scratch=f"{node.root}/taken"))
    assert code == 69
    assert "begun" not in said
    assert f"n1 was not found fit: {node.root}/taken/jade-4711_4 cannot be made" in said
    assert (node.folder / "broken" / "n1").is_file()
    assert "job 4711_4 goes on elsewhere as 4712_4" in said


def test_run_that_is_in_use_is_waited_for_and_that_is_no_failure(node):
    for _ in range(5):
        code, said = node.run("exit 73", tmpdir=node.root, budget=1, replaces_failed=True)
        assert code == 73
        assert "is queued again: another process has its run" in said
    assert node.calls() == ["sleep 60", "scontrol requeue 4711_4"] * 5
    assert not (node.folder / "failures").exists()


def test_run_that_stays_in_use_is_not_waited_for_forever(node):
    waits = node.folder / "in_use" / "4"
    waits.parent.mkdir()
    waits.write_text("1\n" * MAX_IN_USE)
    assert "has waited for its run too often" in node.run("exit 73", tmpdir=node.root)[1]
    assert node.calls() == []
    # What is between counts anew.
    node.run("exit 75", tmpdir=node.root)
    node.run("exit 73", tmpdir=node.root)
    assert node.calls() == ["scontrol requeue 4711_4", "sleep 60", "scontrol requeue 4711_4"]


def test_lsf_queues_again_whose_run_is_in_use(node):
    code, said = node.run("exit 73", tmpdir=node.root, scheduler=LSF)
    assert "job 4711_5 is queued again: another process has its run" in said
    # As with -Q.
    assert code == 75
    assert node.calls() == ["sleep 60"]
    (node.folder / "in_use" / "4").write_text("1\n" * MAX_IN_USE)
    code, said = node.run("exit 73", tmpdir=node.root, scheduler=LSF)
    assert (code, "has waited for its run too often" in said) == (73, True)


def test_element_over_ssh_starts_again_when_nobody_has_its_run(node):
    command = 'echo "TMPDIR=$TMPDIR"; [ -e free ] || { touch free; exit 73; }'
    code, said = node.run(command, tmpdir=node.root, scheduler=SSH)
    assert code == 0
    assert "job ssh_4 starts again: another process had its run" in said
    assert said.count(f"TMPDIR={node.root}/jade-ssh_4\n") == 2
    assert node.calls() == ["sleep 60"]
    assert not (node.folder / "in_use" / "4").exists()


def test_element_over_ssh_that_is_asked_to_end_does_not_wait_for_its_run(node):
    process = node.start(until(node, "heard", "exit 73"), tmpdir=node.root, scheduler=SSH)
    wait_for_file(node.root / "begun")
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=20)
    assert process.returncode == 73
    assert node.calls() == []


def test_interrupted_job_is_not_queued_again(node):
    code, said = node.run("exit 130", tmpdir=node.root, replaces_failed=True)
    assert code == 130
    assert "job 4711_4 was interrupted" in said
    assert node.calls() == []
    assert not (node.folder / "failures").exists()


@pytest.mark.parametrize(
    ("numbers", "is_queued"),
    [
        ([signal.SIGUSR1], True),
        ([signal.SIGUSR2], False),
        ([signal.SIGUSR2, signal.SIGUSR1], False),
        ([signal.SIGUSR1, signal.SIGUSR2], False),
    ],
)
def test_cancelled_job_stays_cancelled_whatever_comes_after(node, numbers, is_queued):
    then = "/bin/sleep 0.5; exit 75"
    process = node.start(until(node, "heard", then), tmpdir=node.root)
    wait_for_file(node.root / "begun")
    for number in numbers:
        process.send_signal(number)
        wait_for_file(node.root / "heard")
    said, _ = process.communicate(timeout=20)
    # It was told once: the second time would be the end of its checkpoint.
    assert process.returncode == 75
    assert ("is cancelled" in said) != is_queued
    assert node.calls() == (["scontrol requeue 4711_4"] if is_queued else [])


def test_job_that_is_asked_to_end_during_its_preflight_begins_nothing(node):
    check = f'touch "{node.root}/begun"; while [ ! -e "{node.root}/go" ]; do /bin/sleep 0.02; done'
    process = node.start("echo begun", tmpdir=node.root, preflight=("bash", "-c", check))
    wait_for_file(node.root / "begun")
    process.send_signal(signal.SIGUSR1)
    (node.root / "go").touch()
    said, _ = process.communicate(timeout=20)
    assert "begun" not in said
    assert "is queued again: its work goes on" in said


def test_job_that_was_started_too_early_and_is_ended_at_once_is_queued_again(node):
    wait = f'touch "{node.root}/begun"; until [ -e "{node.root}/go" ]; do /bin/sleep 0.02; done'
    process = node.start("echo program", tmpdir=node.root, resources=Resources(setup=(wait,)))
    wait_for_file(node.root / "begun")
    process.send_signal(signal.SIGTERM)
    (node.root / "go").touch()
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 75
    assert "program" not in said
    assert "is queued again: its work goes on" in said


def until(node, name, then):
    """Write a program that heeds USR1 once; a second one ends it."""
    return f"""
        trap 'touch "{node.root}/{name}"; trap "exit 1" USR1' USR1
        touch "{node.root}/begun"
        while [ ! -e "{node.root}/{name}" ]; do /bin/sleep 0.05; done
        {then}
    """


def wait_for_file(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def test_script_for_ssh_wants_a_number(tmp_path):
    done = subprocess.run(
        ["bash", "-s"], input=render(make_job(), SSH), text=True, capture_output=True, check=False
    )
    assert done.returncode != 0
    assert "which element of the array" in done.stderr


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_scripts_name_no_user_host_or_place(path):
    text = path.read_text()
    commands = [line for line in text.splitlines()[1:] if not line.startswith("#")]
    # Redirections to nowhere are no places.
    found = [line for line in commands if re.search(r"(?<![\w}\"*.])/(?!dev/null)\w", line)]
    assert found == []
    assert "$USER" not in text
    for part in (
        "--output=%x-%A_%a.log",
        "--open-mode=append",
        "--requeue",
        "--signal=B:USR1@",
        "SLURM_RESTART_COUNT",
        'mkdir -p "$scratch" || exit 69',
        'rm -rf -- "$scratch"',
        'scontrol requeue "$job"',
    ):
        assert part in text
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


def test_all_scripts_are_shipped():
    names = [path.name for path in SHIPPED]
    assert names == [
        "jade_agent.sbatch",
        "local_sweep.sbatch",
        "train.sbatch",
        "wandb_agent.sbatch",
    ]


@pytest.mark.parametrize("name", ["jade_agent", "wandb_agent"])
def test_missing_sweep_id_exits_2_with_the_command_to_write(name):
    done = subprocess.run(
        ["bash", ROOT / "slurm" / f"{name}.sbatch"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "SWEEP_ID is missing. Write: sbatch --export=ALL,SWEEP_ID=entity/project/id "
        f"slurm/{name}.sbatch\n"
    )


@pytest.mark.parametrize("name", ["local_sweep", "train"])
def test_missing_arguments_exit_2_with_the_command_to_write(name):
    path = ROOT / "slurm" / f"{name}.sbatch"
    done = subprocess.run(["bash", path], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"slurm/{name}.sbatch" in done.stderr


@pytest.mark.parametrize(
    ("code", "restarts", "then"),
    [
        (75, 99, ["scontrol requeue 4711_4"]),
        (73, 0, ["sleep 60", "scontrol requeue 4711_4"]),
        (73, 60, []),
        (1, 0, []),
        (130, 0, []),
    ],
)
def test_shipped_training_is_queued_again_also_if_its_run_is_in_use(node, code, restarts, then):
    node.fake("jade", f"exit {code}")
    environ = {
        "PATH": f"{node.programs}:/usr/bin:/bin",
        "TMPDIR": str(node.root),
        "SLURM_ARRAY_JOB_ID": "4711",
        "SLURM_ARRAY_TASK_ID": "4",
        "SLURM_RESTART_COUNT": str(restarts),
    }
    path = ROOT / "slurm" / "train.sbatch"
    subprocess.run(
        ["bash", path, "--config=a.yml"], env=environ, stdout=subprocess.PIPE, check=False
    )
    assert node.calls()[1:] == then

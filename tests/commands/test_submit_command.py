"""`jade submit` and `jade jobs` on a login node: what is printed, refused and written."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jade.cli import main
from jade.commands.submit.sweep import AGENT_FLAGS, SWEEP_FLAGS

ROOT = Path(__file__).parents[2]
RUN = [
    "--model_conf=model.yml",
    "--data_conf=data.yml",
    "--eval_conf=eval.yml",
    "--arch_impl=modules/architectures/small.py",
    "--epochs=2",
]
SWEEP = """
    program: train.py
    method: grid
    command: ["${env}", "${interpreter}", "${program}", --model_conf=model.yml, "${args}"]
    parameters:
      model.lr: {values: [0.1, 0.2, 0.3]}
      seed: {values: [1, 2]}
"""
FAKES = {
    "sbatch": 'cp "$2" "$(dirname "$0")/received"; echo 4711',
    "sinfo": "printf 'main\\nlong\\n'",
    "squeue": 'cat "$(dirname "$0")/queue" 2> /dev/null || true',
    "scancel": 'echo "$@" >> "$(dirname "$0")/cancelled"; rm -f "$(dirname "$0")/queue"',
}


@pytest.fixture
def slurm(project, tmp_path, monkeypatch):
    """A SLURM whose commands are scripts that take everything, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in FAKES.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    project.write("sweep.yml", SWEEP)
    project.write("train.py", "")
    return folder


def refuse(capsys, *tokens):
    """Return what is said against a command; nothing may have been written."""
    before = sorted(Path().rglob("*"))
    assert main(["submit", *tokens]) == 2
    assert sorted(Path().rglob("*")) == before
    return capsys.readouterr().err.removeprefix("jade: error: ").strip()


def test_training_is_handed_over_as_printed(slurm, capsys):
    tokens = ["train", *RUN, "--time=2 hours", "--mem", "4G", "--job_name=first"]
    assert main(["submit", *tokens, "--print"]) == 0
    printed = capsys.readouterr().out
    assert not Path("jobs").exists()
    assert main(["submit", *tokens]) == 0
    said = capsys.readouterr().out
    received = (slurm / "received").read_text()
    assert "submitted 1 job: 4711 (first-" in said
    assert "#SBATCH --time=02:00:00\n#SBATCH --mem=4G\n" in received
    assert f"jade train {' '.join(RUN)} --resume=auto &" in received

    def fixed(text):
        return [line for line in text.splitlines() if "first-" not in line and "RUN_ID" not in line]

    assert [line for line in fixed(printed) if "Written" not in line] == [
        line for line in fixed(received) if "Written" not in line
    ]


def test_submission_keeps_the_project_and_what_was_asked(slurm):
    assert main(["submit", "train", *RUN, "--job_name=first"]) == 0
    (folder,) = Path("jobs").iterdir()
    assert (folder / "code" / "modules" / "models" / "line.py").is_file()
    assert (folder / "code" / "experiments").resolve() == Path("experiments").resolve()
    record = json.loads((folder / "submission.json").read_text())
    assert (record["kind"], record["elements"]) == ("train", 1)
    assert (folder / "job_ids").read_text() == "4711\n"
    assert (folder / "job.sh").read_text() == (slurm / "received").read_text()


def test_run_of_a_submission_has_an_id_from_the_start(slurm):
    assert main(["submit", "train", *RUN]) == 0
    (folder,) = Path("jobs").iterdir()
    run_id = json.loads((folder / "submission.json").read_text())["run"]
    assert f"export WANDB_RUN_ID={run_id}\n" in (folder / "job.sh").read_text()


def test_resources_come_from_profile_section_and_flags(slurm, project, capsys):
    project.write("slurm.yml", "partition: long\nmem: 1G\nsetup: module load a\n")
    project.write("more.yml", "slurm: {mem: 2G, cpus: 2, setup: [export B=1]}\n")
    assert main(["submit", "train", *RUN, "--config=more.yml", "--cpus=3", "--print"]) == 0
    text = capsys.readouterr().out
    for line in ("--partition=long", "--mem=2G", "--cpus-per-task=3"):
        assert f"#SBATCH {line}\n" in text
    assert "module load a\nexport B=1\n" in text


def test_sweep_file_may_say_what_its_jobs_get(slurm, project, capsys):
    project.write("sweep.yml", SWEEP + "    slurm: {time: 3:00:00, gpus: 1}\n")
    assert main(["submit", "sweep", "sweep.yml", "--agents=3", "--print", "--epochs=2"]) == 0
    text = capsys.readouterr().out
    assert "#SBATCH --array=0-2\n" in text
    assert "#SBATCH --time=3:00:00\n#SBATCH --gres=gpu:1\n" in text
    assert "jade sweep run sweep.yml --workers 1 --devices cuda:0 --epochs=2 &" in text


def test_section_about_jobs_is_no_part_of_the_run(project, arguments):
    project.write("more.yml", "slurm: {time: 10:00:00}\n")
    assert main([*arguments, "--config=more.yml"]) == 0
    (run,) = Path("experiments").iterdir()
    assert "slurm" not in (run / "config.yml").read_text()


def test_wrong_section_about_jobs_is_an_error_of_every_command(project, arguments, capsys):
    project.write("more.yml", "epochs: 2\nslurm:\n  time: 36000\n")
    assert main([*arguments, "--config=more.yml"]) == 2
    assert "more.yml:2: slurm: time: 36000 could be seconds" in capsys.readouterr().err


def test_grid_has_as_many_elements_as_runs(slurm, capsys):
    assert main(["submit", "grid", "sweep.yml", "--at-a-time=4", "--print"]) == 0
    text = capsys.readouterr().out
    assert "#SBATCH --array=0-5%4\n" in text
    assert 'jade grid run sweep.yml --index "$task" --resume=auto &' in text


def test_tests_of_a_folder_are_one_job(slurm, capsys):
    Path("experiments").mkdir()
    assert main(["submit", "test", "experiments", "--repeat=2", "--print"]) == 0
    text = capsys.readouterr().out
    assert f"jade test {Path.cwd()}/experiments --repeat=2 &" in text


@pytest.mark.parametrize(("scheduler", "command"), [("lsf", "bsub < "), ("ssh", "ssh HOST ")])
def test_other_schedulers_get_the_same_script_with_the_command_to_type(
    slurm, capsys, scheduler, command
):
    assert main(["submit", "sweep", "sweep.yml", "--agents=2", f"--scheduler={scheduler}"]) == 0
    said = capsys.readouterr().out
    (folder,) = Path("jobs").iterdir()
    assert f"  {command}" in said
    assert str(folder.absolute() / "job.sh") in said
    assert not (slurm / "received").exists()


# Bad input


def test_without_sbatch_the_command_says_where_to_look(project, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(project.root))
    assert refuse(capsys, "train", *RUN) == (
        "There is no sbatch on PATH: is this a login node of the cluster, and is its SLURM loaded "
        "(module load slurm)? --print shows the script without it."
    )


def test_refusal_of_sbatch_is_shown_with_the_script(slurm, capsys):
    text = "#!/bin/sh\necho 'sbatch: error: invalid account' >&2\nexit 1\n"
    (slurm / "sbatch").write_text(text)
    assert main(["submit", "train", *RUN]) == 2
    said = capsys.readouterr().err
    (script,) = Path("jobs").absolute().glob("*/job.sh")
    assert said == f"jade: error: sbatch refuses {script}:\nsbatch: error: invalid account\n"


def test_unknown_partition_is_refused_with_those_that_there_are(slurm, capsys):
    said = refuse(capsys, "train", *RUN, "--partition=mian")
    assert said == "There is no partition 'mian'. Did you mean 'main'? Known: long, main."


@pytest.mark.parametrize("where", ["flag", "file"])
def test_time_without_a_unit_is_refused(slurm, project, capsys, where):
    project.write("more.yml", "slurm:\n  time: 36000\n")
    tokens = ["--time=36000"] if where == "flag" else ["--config=more.yml"]
    said = refuse(capsys, "train", *RUN, *tokens)
    assert "time: 36000 could be seconds" in said
    assert "'10:00:00'" in said
    assert said.startswith("--time: " if where == "flag" else "more.yml:1: slurm: ")


def test_unwritable_folder_for_logs_is_refused(slurm, capsys, project):
    # Also root cannot make a folder below a file.
    project.write("taken", "")
    said = refuse(capsys, "train", *RUN, "--logs=taken/logs")
    assert said == (
        f"The folder for the logs, {Path.cwd()}/taken/logs, cannot be made: {Path.cwd()}/taken is "
        "not a folder. Give another --logs."
    )


def test_folder_that_cannot_be_made_for_another_reason_is_refused(slurm, capsys):
    # Nobody can make one there, but root is told that it may.
    said = refuse(capsys, "train", *RUN, "--logs=/proc/logs")
    assert "/proc/logs" in said
    assert "cannot be made" in said


@pytest.mark.parametrize(
    "tokens",
    [
        ["submit", "train", *RUN],
        ["submit", "sweep", "sweep.yml"],
        ["submit", "grid", "sweep.yml"],
        ["submit", "test", "experiments"],
        ["jobs"],
        ["jobs", "cancel", "4711"],
    ],
    ids=" ".join,
)
def test_commands_of_a_login_node_load_nothing_heavy(slurm, tokens):
    Path("experiments/a").mkdir(parents=True)
    Path("experiments/a/status.json").write_text("{}")
    Path("jobs").mkdir()
    if tokens[0] == "jobs":
        assert main(["submit", "grid", "sweep.yml"]) == 0
    script = "import sys\nfrom jade.cli import main\nprint(main(sys.argv[1:]), *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, *tokens],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    assert {"torch", "numpy", "wandb", "optuna"} & set(modules) == set()


def test_sweep_of_another_project_is_refused_with_its_whole_name(
    slurm, wandb_online, capsys, monkeypatch
):
    text = "program: train.py\nmethod: grid\nparameters: {seed: {values: [1]}}\n"
    entity, project, sweep_id = "team", "project", wandb_online.create_sweep(text)
    path = f"{entity}/{project}/{sweep_id}"
    monkeypatch.setenv("WANDB_PROJECT", "another")
    said = refuse(capsys, "sweep", sweep_id)
    assert said == (
        f"There is no sweep {sweep_id} in {entity}/another. It is one of another project: did you "
        f"mean {path}?"
    )
    assert "There is no sweep" in refuse(capsys, "sweep", f"{entity}/{project}/nonsense")


def test_agents_of_wandb_are_handed_over_with_the_whole_name_of_the_sweep(
    slurm, wandb_online, monkeypatch
):
    text = "program: train.py\nmethod: grid\nparameters: {seed: {values: [1]}}\n"
    sweep_id = wandb_online.create_sweep(text)
    path = f"team/project/{sweep_id}"
    monkeypatch.setenv("WANDB_PROJECT", "project")
    assert main(["submit", "sweep", sweep_id, "--agents=2", "--per_job=3", "--count", "5"]) == 0
    received = (slurm / "received").read_text()
    assert f"jade agent {path} --per_device 3 --devices cpu --count 5 &" in received
    assert main(["submit", "sweep", path, "--wandb_agent", "--job_name=own"]) == 0
    received = (slurm / "received").read_text()
    assert f"wandb agent --forward-signals {path} &" in received
    assert f"elif jade agent {path} --preflight; code=$?" in received
    assert 'kill -TERM "$child"' in received


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["train"], "What is to be trained?"),
        (["train", *RUN, "--tiem=1:00"], "There is no flag --tiem. Did you mean --time?"),
        (["train", *RUN, "--config=nowhere.yml"], "nowhere.yml"),
        (["train", *RUN, "--env_file=nowhere"], "env_file: there is no file"),
        (["train", *RUN, "--profile=nowhere.yml"], "--profile: there is no file nowhere.yml"),
        (["train", *RUN, "--replace=-1"], "--replace must be at least 0"),
        (["sweep", "--agents=2"], "Which sweep?"),
        (["sweep", "sweep.yml", "--agents=0"], "--agents must be at least 1, not 0."),
        (["sweep", "sweep.yml", "--wandb_agent"], "jade sweep push sweep.yml makes one"),
        (["sweep", "e/p/abc", "--epochs=3"], "--epochs is no argument of agents"),
        (["grid"], "Which grid?"),
        (["grid", "sweep.yml", "--at_a_time=0"], "--at_a_time must be at least 1"),
        (["test"], "What is to be tested?"),
        (["sweeps", "sweep.yml"], "There is no command 'sweeps' of jade submit. Did you mean"),
        (["sweep.yml"], "Did you mean: jade submit sweep sweep.yml?"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(slurm, capsys, tokens, text):
    assert text in refuse(capsys, *tokens)


def test_flags_that_are_passed_on_are_those_of_the_other_commands(capsys):
    for tokens, flags in ((["agent"], AGENT_FLAGS), (["sweep", "run"], SWEEP_FLAGS)):
        assert main([*tokens, "--help"]) == 0
        shown = capsys.readouterr().out
        assert [name for name in flags if f"--{name}" not in shown] == []


# Jobs


@pytest.fixture
def submitted(slurm):
    assert main(["submit", "sweep", "sweep.yml", "--agents=3", "--job_name=mine"]) == 0
    (folder,) = Path("jobs").iterdir()
    return folder


def test_jobs_show_queue_and_what_has_ended(submitted, slurm, capsys):
    capsys.readouterr()
    (slurm / "queue").write_text("4711_0|RUNNING|1:02|n1|None\n99_0|RUNNING|0:01|n9|None\n")
    (submitted / "ends").mkdir()
    (submitted / "ends" / "1").write_text("4711_1 1 n1 0\n")
    (submitted / "broken").mkdir()
    (submitted / "broken" / "n7").write_text("4711_2, see its log\n")
    run = Path("experiments/sweep/runs/abc")
    run.mkdir(parents=True)
    (run / "status.json").write_text('{"status": "finished"}')
    ids = {"ids": {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "0"}}
    (run / "provenance.json").write_text(json.dumps(ids))
    assert main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mine-")
    assert lines[0].endswith(": 1 running, 1 failed, 1 gone")
    assert lines[2].split() == ["4711_0", "RUNNING", "n1", "1:02", "1", "finished"]
    assert lines[3].split() == ["4711_1", "FAILED", "exit", "1"]
    assert lines[4].split() == ["4711_2", "GONE"]
    assert lines[5] == "n7 cannot run it: 4711_2, see its log"


def test_job_that_never_said_how_it_ended_is_shown_with_the_reason_of_slurm(
    submitted, slurm, capsys
):
    capsys.readouterr()
    (slurm / "queue").write_text("4711_0|FAILED|0:00|n2|JobLaunchFailure\n")
    assert main(["jobs", "4711"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["4711_0", "FAILED", "n2", "0:00", "JobLaunchFailure"]


def test_jobs_that_are_done_are_shown_on_request(submitted, slurm, capsys):
    capsys.readouterr()
    (submitted / "ends").mkdir()
    for number in range(3):
        (submitted / "ends" / str(number)).write_text(f"4711_{number} 0 n1 0\n")
    assert main(["jobs"]) == 0
    assert capsys.readouterr().out == "1 that are done are not shown: --all\n"
    assert main(["jobs", "--all", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert [job["state"] for job in shown["jobs"]] == ["DONE"] * 3


def test_cancel_asks_running_jobs_for_a_checkpoint_and_removes_those_that_wait(
    submitted, slurm, capsys
):
    (slurm / "queue").write_text("4711_0|RUNNING|1:02|n1|None\n4711_1|PENDING|0:00||Priority\n")
    text = 'echo "$@" >> "$(dirname "$0")/cancelled"'
    (slurm / "scancel").write_text(
        f'#!/bin/sh\n{text}\ncase "$*" in *USR2*) rm "$(dirname "$0")/queue";; esac\n'
    )
    capsys.readouterr()
    assert main(["jobs", "cancel", "4711"]) == 0
    assert capsys.readouterr().out == "cancelled: 4711_0, 4711_1\n"
    assert (slurm / "cancelled").read_text() == "4711_1\n--batch --signal=USR2 4711_0\n"


def test_cancel_of_one_element_leaves_the_others_alone(submitted, slurm, capsys):
    (slurm / "queue").write_text("4711_0|PENDING|0:00||x\n4711_1|PENDING|0:00||x\n")
    capsys.readouterr()
    assert main(["jobs", "cancel", "4711_1"]) == 0
    assert (slurm / "cancelled").read_text() == "4711_1\n"


def test_job_that_does_not_end_is_cut_off(submitted, slurm, capsys):
    (slurm / "queue").write_text("4711_0|RUNNING|1:02|n1|None\n")
    (slurm / "scancel").write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/cancelled"\n')
    capsys.readouterr()
    assert main(["jobs", "cancel", "mine", "--grace=0.1 s"]) == 1
    assert capsys.readouterr().out == "cut off after 0.1 s: 4711_0\n"
    assert (slurm / "cancelled").read_text().splitlines()[-1] == "4711_0"


def test_unknown_submission_is_refused_with_those_that_there_are(submitted, capsys):
    capsys.readouterr()
    assert main(["jobs", "cancel", "nine"]) == 2
    assert "There is no submission 'nine' below jobs." in capsys.readouterr().err
    assert main(["jobs", "mine", "--jobs_root=elsewhere"]) == 2
    assert "where there is none at all" in capsys.readouterr().err
    shutil.rmtree("jobs")
    assert main(["jobs"]) == 2
    assert "There are no submissions below jobs." in capsys.readouterr().err

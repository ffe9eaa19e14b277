import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from jade import __version__
from jade.cli import main, train_main
from jade.commands import COMMANDS
from jade.commands.base import importing_for_good
from jade.overrides import flatten
from jade.settings import FIELDS
from jade.yaml_file import parse

ROOT = Path(__file__).parent.parent
MODEL = "class: LineTrainer\nparams:\n"


class Result:
    def __init__(self, code, captured):
        self.code = code
        self.out = captured.out
        self.err = captured.err


@pytest.fixture
def jade(project, arguments, capsys):
    """Run a command on the small project, with more arguments or without some."""

    def jade(command="train", *more, without=()):
        kept = [item for item in arguments[1:] if not item.startswith(tuple(without) or ("\0",))]
        capsys.readouterr()
        code = main([command, *kept, *more])
        return Result(code, capsys.readouterr())

    return jade


def tree(folder):
    return {p for p in folder.rglob("*") if "__pycache__" not in p.parts}


# What is refused before anything starts

BAD_FILES = {
    "empty file": ("model.yml", "# nothing\n", "--model_conf: model.yml is empty"),
    "wrong indentation": ("model.yml", "class: A\n params:\n", "model.yml:2: mapping values"),
    "keys not aligned": ("model.yml", f"{MODEL}   lr: 1\n  batch_size: 2\n", "same column"),
    "duplicate key": ("model.yml", f"{MODEL}  lr: 1\n  lr: 2\n", "the key 'lr' stands here and in"),
    "glued list": (
        "model.yml",
        f"{MODEL}  lr:\n    -1024\n    -256\n",
        "      - 1024\n      - 256",
    ),
    "glued item": ("model.yml", f"{MODEL}  lr:\n    -1024\n", "for the number write lr: -1024"),
    "tabs": ("model.yml", "class: A\nparams:\n\tlr: 1\n", "use blanks"),
    "binary file": ("model.yml", b"\x80\x04\x95", "is not a text file"),
    "list for mapping": ("eval.yml", "- class: SquaredError\n", "expected a mapping"),
    "unknown key": ("model.yml", "class: LineTrainer\nparms: {}\n", "Did you mean 'params'?"),
    "unknown parameter": ("model.yml", f"{MODEL}  batchsize: 1\n", "Did you mean 'batch_size'?"),
    "nested unknown key": (
        "data.yml",
        "train: {class: Subset, params: {dataset: {class: Points, n: 3}, indices: [0]}}\n",
        "data.train.params.dataset.n (data.yml:1): unknown key",
    ),
    "wrong type": (
        "model.yml",
        f"{MODEL}  lr: fast\n",
        "model.params.lr (model.yml:3): expected float",
    ),
    "missing parameter": ("eval.yml", "E: {class: SquaredError}\n", "needs 'evaluate_on'"),
    "undefined variables": (
        "data.yml",
        "train:\n  class: Points\n  params:\n    n: $NOT_A\n    seed: ${NOT_B}\n"
        "test:\n  class: Points\n",
        "NOT_A for data.train.params.n (data.yml:4).\n    NOT_B for data.train.params.seed (data.yml:5)",
    ),
    "class not found": ("model.yml", "class: LinTrainer\n", "Did you mean 'LineTrainer'?"),
    "class found twice": (
        "modules/models/copy.py",
        "class LineTrainer: ...\n",
        "is defined 2 times",
    ),
    "class in a broken file": (
        "modules/models/line.py",
        "class LineTrainer(:\n",
        "stands in a file that Python cannot read: modules/models/line.py:1",
    ),
    "file cannot be imported": (
        "modules/models/line.py",
        "import no_such_package\nclass LineTrainer: ...\n",
        "No module named 'no_such_package' (modules/models/line.py:1)",
    ),
    "no architecture class": (
        "modules/architectures/small.py",
        "class Nett: ...\n",
        "small.py has no class 'Net'. Did you mean 'Nett'?",
    ),
    "architecture keyword": (
        "modules/architectures/small.py",
        "class Net:\n    def __init__(self, outs): ...\n",
        "Net(outs) in modules/architectures/small.py takes no 'n_out'. Did you mean 'outs'?",
    ),
    "unknown dataset": (
        "eval.yml",
        "E: {class: SquaredError, params: {evaluate_on: tset}}\n",
        "Did you mean 'test'?",
    ),
    "swapped files": ("model.yml", "train: {class: Points}\n", "is it a file for --data_conf"),
    "no names": ("data.yml", "class: Points\n", "holds descriptions by name"),
    "not a trainer": ("model.yml", "class: Points\n", "Points is not a Trainer"),
    "forgotten value": ("model.yml", f"{MODEL}  lr:\n", "Is the value missing behind the key?"),
    "forgotten colon": ("eval.yml", "Error\n  class: SquaredError\n", "lack its colon"),
    "glued colon": ("model.yml", "class:LineTrainer\nparams: {}\n", "must follow the colon"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_refused_in_one_message_with_nothing_written(project, jade, name):
    file_name, content, text = BAD_FILES[name]
    path = project.root / file_name
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    before = tree(project.root)

    result = jade()

    assert result.code == 2
    assert text in result.err
    assert result.err.count("jade: error:") == 1
    assert "Traceback" not in result.err
    assert tree(project.root) == before


BAD_ARGUMENTS = {
    "missing file": (["--model_conf=modle.yml"], "--model_conf: modle.yml does not exist. Did you"),
    "folder for file": (["--data_conf=modules"], "--data_conf: modules is a directory"),
    "unknown flag": (["--epoch=3"], "There is no flag --epoch. Did you mean --epochs?"),
    "abbreviated flag": (["--exp=x"], "There is no flag --exp."),
    "single dash": (["-epochs", "3"], "flags begin with two dashes. Did you mean --epochs?"),
    "flag without value": (["--epochs"], "Argument --epochs: expected one argument."),
    "bare argument": (["thing"], "The argument 'thing' is not understood"),
    "unknown key": (["--model.bata=1"], "no 'bata' in model"),
    "unknown section": (["--modle.params.x=1"], "Did you mean 'model'?"),
    "ambiguous key": (["--data.seed=1"], "fits more than one parameter"),
    "key without section": (["--lr=1"], "write --model.params.lr"),
    "wrong type": (["--model.lr=fast"], "expected float, not 'fast'"),
    "key without value": (["--model.lr"], "(argument --model.lr without a value): expected float"),
    "wrong choice": (["--wandb=of"], "Did you mean 'offline'?"),
    "epochs in words": (["--epochs=ten"], "expected int or null, not 'ten'"),
    "wrong unit": (["--log_loss_every=5 iteratoins"], "Did you mean 'iterations'?"),
    "wrong metric": (["--best_metric=Eror"], "Did you mean 'Error'?"),
    "wrong device": (["--device=cdua"], "is no device. Did you mean 'cuda'?"),
    "root is a file": (["--experiments_root=model.yml"], "model.yml is not a directory"),
    "broken json": (['{"a": '], "is not JSON"),
    "no env file": (["--env_file=no.env"], "--env_file: no.env does not exist"),
    "no modules": (["--modules=nowhere"], "there is no folder nowhere"),
    "sweep as config": (["--config=sweep.yml"], "is a sweep"),
    "no architecture": (["--arch_impl=smal"], "Did you mean 'small'?"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_argument_is_refused_in_one_message_with_nothing_written(project, jade, name):  # L7
    arguments, text = BAD_ARGUMENTS[name]
    project.write("sweep.yml", "method: grid\nparameters: {seed: {value: 1}}\n")
    before = tree(project.root)

    result = jade("train", *arguments)

    assert result.code == 2
    assert text in result.err
    assert result.err.count("jade: error:") == 1
    assert "Traceback" not in result.err
    assert tree(project.root) == before


@pytest.mark.parametrize(
    ("without", "flag"),
    [
        ("--model_conf", "--model_conf"),
        ("--data_conf", "--data_conf"),
        ("--epochs", "--epochs"),
        ("--arch_impl", "--arch_impl"),
    ],
)
def test_missing_input_names_its_flag(project, jade, without, flag):  # C2
    result = jade("train", without=[without])

    assert result.code == 2
    assert flag in result.err
    assert not (project.root / "experiments").exists()


def test_root_that_cannot_be_written_is_refused(project, jade):
    folder = project.root / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        folder.rmdir()
        folder.write_text("root may write everywhere, but not below a file")

    result = jade("train", f"--experiments_root={folder}/runs")

    assert result.code == 2
    assert "locked" in result.err
    assert "Give another one with --experiments_root or EXPERIMENTS_ROOT." in result.err


def test_broken_file_that_is_not_used_is_only_a_warning(project, jade):  # K4
    project.write("modules/models/broken.py", "def x(:\n")

    result = jade("train", "--dry_run")

    assert result.code == 0
    assert "Left out, no class of it is used: modules/models/broken.py:1" in result.out + result.err


# Runs


def test_training_ends_with_code_zero_and_its_results(project, jade):  # C1, C18
    result = jade("train", "--model.lr=0.05")

    assert result.code == 0
    (run,) = (project.root / "experiments").iterdir()
    config = parse((run / "config.yml").read_text(), "config.yml").values
    assert config["model"]["params"]["lr"] == 0.05
    assert "finished" in result.out
    assert str(run.name) in result.out
    assert "Error" in result.out


def test_pictures_and_runs_without_numbers_are_told(project, jade):
    project.write(
        "modules/eval/errors.py",
        """
        import torch
        from jade.eval import Evaluation

        class SquaredError(Evaluation):
            def evaluate(self):
                return {"type": "image", "value": torch.zeros(3, 4, 4)}
        """,
    )
    project.write("eval.yml", "Picture: {class: SquaredError}\n")

    result = jade()

    assert result.code == 0, result.err
    assert "picture: experiments/" in result.out
    assert "Final evaluations" not in result.out


def test_garbage_collection_pauses_only_while_torch_is_imported(monkeypatch):
    with importing_for_good():
        assert gc.isenabled()
    monkeypatch.delitem(sys.modules, "torch")
    with importing_for_good():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_dry_run_keeps_nothing(project, jade):
    result = jade("train", "--dry-run")

    assert result.code == 0
    assert "dry run: everything works, nothing was kept" in result.out
    assert not (project.root / "experiments").exists()


def test_exception_of_user_code_ends_with_code_one_and_its_own_traceback(project, jade):  # C18, K16
    project.write(
        "modules/data/points.py", "class Points:\n    def __init__(self):\n        1 / 0\n"
    )
    project.write("data.yml", "train: {class: Points}\ntest: {class: Points}\n")

    result = jade()

    assert result.code == 1
    assert 'modules/data/points.py", line 3' in result.err
    assert result.err.rstrip().endswith("ZeroDivisionError: division by zero")
    shown = [line for line in result.err.splitlines() if line.startswith('  File "')]
    assert [Path(line.split('"')[1]).name for line in shown] == ["line.py", "points.py"]


def test_interruption_before_the_run_ends_with_code_130(project, jade):  # C18
    project.write("modules/data/points.py", "raise KeyboardInterrupt\nclass Points: ...\n")

    result = jade("check")

    assert result.code == 130
    assert "jade: interrupted" in result.err


def test_exception_with_a_known_cause_gets_a_hint(project, jade):  # T4
    project.write(
        "modules/data/points.py",
        """
        from torch.utils.data import DataLoader

        class Points:
            def __init__(self, seed=0):
                DataLoader([1], n_workers=2)
        """,
    )

    result = jade()

    assert result.code == 1
    assert "hint: DataLoader takes no 'n_workers'. Did you mean 'num_workers'?" in result.err


def test_env_file_is_seen_by_user_code_during_the_command_only(project, jade):  # C9, C14
    project.write(".env", "ONLY_IN_FILE=7\n")
    project.write(
        "modules/data/points.py",
        """
        import os

        class Points:
            def __init__(self, n: int = 3, seed=0):
                raise RuntimeError(f"n={n} environ={os.environ['ONLY_IN_FILE']}")
        """,
    )

    result = jade("train", "--data.train.n=$ONLY_IN_FILE")

    assert "RuntimeError: n=7 environ=7" in result.err
    assert "ONLY_IN_FILE" not in os.environ


# jade check


def test_check_tells_what_would_run(project, jade):  # C16
    result = jade("check", "--model.lr=0.5")

    assert result.code == 0
    assert result.out.splitlines() == [
        "note: model.params.lr = 0.5 (argument --model.lr) replaces 0.1 (model.yml:3)",
        "note: not tried: no batch is passed: the dataset 'train' is not read, and a sample (Points "
        "has no example_sample) was needed",
        "model: LineTrainer, 3 parameters",
        "data: train (Points), test (Points)",
        "eval: Error (SquaredError)",
        "no problems found",
    ]
    assert not (project.root / "experiments").exists()


def test_check_finds_everything_at_once(project, jade):  # C16
    result = jade("check", "--arch_impl=smal", "--device=cdua", "--stop_when=x")

    assert result.code == 2
    assert "3 problems" in result.err


def test_check_builds_no_data(project, jade):  # C16
    project.write("data.yml", "train: {class: Broken}\ntest: {class: Broken}\n")

    assert jade("check").code == 0


def test_check_takes_a_configuration_file(project, jade, capsys):  # C16
    project.write(
        "all.yml",
        "model: {class: LineTrainer}\ndata: {train: {class: Points}}\narch_impl: small\nepochs: 1\n",
    )

    assert main(["check", "all.yml"]) == 0
    assert "eval: none" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["VAE", "VIB", "VAE_digits", "VIB_digits"])
@pytest.mark.parametrize("step", ["valid", "final"])
def test_shipped_configurations_have_no_problems(monkeypatch, capsys, tmp_path, model, step):  # C1
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DATA_ROOT", str(tmp_path))
    data, kind = ("Digits", "digits") if "digits" in model else ("MNIST", "MNIST")
    suffix = "" if step == "valid" else "_final"

    code = main(
        [
            "check",
            *("--model-conf", f"configurations/models/{model}.yml"),
            *("--data-conf", f"configurations/data/{data}_{step}.yml"),
            *("--eval_conf", f"configurations/eval/{model[:3]}_simple{suffix}.yml"),
            *("--arch_impl", f"modules/architectures/simple_{kind}.py"),
            *("--epochs", "1", "--experiments-root", str(tmp_path)),
        ]
    )

    assert code == 0, capsys.readouterr().err


# jade config


def test_config_shows_every_value_with_its_source(project, jade, monkeypatch):  # C5
    monkeypatch.setenv("DEVICE", "cpu")
    project.write("base.yml", "class: LineTrainer\nparams: {lr: 1}\n")
    project.write("model.yml", "default_configs: base.yml\nparams:\n  batch_size: 8\n")

    result = jade("config", "--data.train.n=5")

    lines = {line.split("#")[0].strip(): line for line in result.out.splitlines()}
    assert result.code == 0
    assert lines["lr: 1"].endswith("# base.yml:2")
    assert lines["batch_size: 8"].endswith("# model.yml:3")
    assert lines["shuffle: true"].endswith("# default")
    assert lines["device: cpu"].endswith("# environment variable DEVICE")
    assert lines["n: 5"].endswith("# argument --data.train.n")
    assert lines["epochs: 2"].endswith("# argument --epochs")
    assert "#" not in lines["model:"]


def test_config_shows_sources_of_a_sweep_and_what_it_replaced(project, jade, monkeypatch):  # C5
    path = project.write("sweep.yaml", "wandb_version: 1\n\nmodel.params.lr:\n  value: 0.7\n")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(path))

    result = jade("config", "--model.params.lr=0.3")

    assert "# model.params.lr = 0.7 (sweep) replaces 0.3 (argument --model.params.lr)" in result.out
    assert "lr: 0.7                                       # sweep" in result.out


@pytest.mark.parametrize("flags", [[], ["--no-sources"]])
def test_config_prints_yaml_that_reads_back_to_the_same_values(project, jade, flags):
    project.write("model.yml", "class: LineTrainer\nparams: {lr: 1e-5}\n")
    texts = ["--notes=two\nlines # and more", "--run_name=007", "--group= x", "--tags=on,null"]

    result = jade("config", *texts, *flags)

    values = parse(result.out, "output").values
    assert yaml.safe_load(result.out) == values
    assert values["notes"] == "two\nlines # and more"
    assert values["run_name"] == "007"
    assert values["tags"] == ["on", "null"]
    assert set(values) == {*FIELDS, "model", "data", "eval"} - {
        "config",
        "resume",
        "model_conf",
        "data_conf",
        "eval_conf",
    }


def test_config_output_is_a_configuration(project, jade):
    first = jade("config", "--no-sources", "--model.lr=0.5").out
    project.write("printed.yml", first)

    second = jade(
        "config", "--no-sources", "--config=printed.yml", without=["--model", "--data", "--eval"]
    )

    assert parse(second.out, "second").values == parse(first, "first").values


def test_config_shows_variables_unless_asked_to_expand_them(project, jade, monkeypatch):  # C8
    monkeypatch.setenv("MY_LR", "0.25")
    project.write("model.yml", "class: LineTrainer\nparams: {lr: $MY_LR}\n")

    assert flatten(parse(jade("config").out, "x").values)["model.params.lr"] == "$MY_LR"
    assert flatten(parse(jade("config", "--expanded").out, "x").values)["model.params.lr"] == 0.25


# The command itself


@pytest.mark.parametrize("tokens", [[], ["--help"], ["-h"], ["help"]])
def test_without_a_command_the_overview_is_shown(capsys, tokens):
    assert main(tokens) == 0
    text = capsys.readouterr().out
    assert "jade train --model_conf" in text
    assert all(f"  {name} " in text for name in COMMANDS)


def test_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jade {__version__}\n"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["trian"], "There is no command 'trian'. Did you mean 'train'?"),
        (["--epochs=3"], "Which command? Known: agent, analyze,"),
    ],
)
def test_wrong_command_is_refused(capsys, tokens, text):
    assert main(tokens) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "check", "config"])
def test_help_explains_every_flag(capsys, command):  # T14, T16
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out

    assert all(f"--{name} " in text for name in FIELDS)
    assert "Exit codes" in text
    assert (
        "defaults < default_configs < files < DEVICE, EXPERIMENTS_ROOT < arguments < sweep" in text
    )


def test_train_py_is_the_train_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.py", "--help"])

    assert train_main() == 0
    assert capsys.readouterr().out.startswith("usage: python train.py --model_conf")


def test_arguments_default_to_those_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["jade", "--version"])

    assert main() == 0


TOO_HEAVY = (
    *("torch", "numpy", "wandb", "rich", "yaml", "dotenv", "PIL", "tensorboard", "torchvision"),
    *("logging", "json", "difflib", "traceback", "multiprocessing", "importlib.metadata", "socket"),
    *("jade.config", "jade.resolve", "jade.yaml_file", "jade.run", "jade.class_index"),
)
IMPORTS = """
import sys
from jade.cli import main
main(sys.argv[1:])
print("modules:", *sys.modules)
"""


@pytest.mark.parametrize(
    "tokens", [["--help"], ["train", "--help"], ["runs", "--help"], ["show", "--help"]]
)
def test_help_loads_nothing_heavy(tokens):
    # -S: what an installation imports at every start is not ours.
    result = subprocess.run(
        [sys.executable, "-S", "-c", IMPORTS, *tokens],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    loaded = result.stdout.rpartition("modules:")[2].split()
    assert "jade.cli" in loaded
    assert [name for name in TOO_HEAVY if name in loaded] == []


@pytest.mark.slow
def test_process_ends_with_the_code_and_message(project):  # C18
    result = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "--epoch", "3"],
        capture_output=True,
        text=True,
        cwd=project.root,
    )

    assert result.returncode == 2
    assert "There is no flag --epoch. Did you mean --epochs?" in result.stderr
    assert "Traceback" not in result.stderr


def test_output_that_nobody_reads_is_no_error(capsys, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        code = main(["--help"])

    assert code == 1
    assert capsys.readouterr() == ("", "")


def test_broken_pipe_of_user_code_is_an_error(project, jade):
    project.write(
        "modules/data/points.py",
        "class Points:\n    def __init__(self, seed=0):\n        raise BrokenPipeError('mine')\n",
    )

    result = jade()

    assert result.code == 1
    assert "BrokenPipeError: mine" in result.err


@pytest.mark.slow
def test_closed_pipe_is_no_error_message(project):
    script = f"{sys.executable} -m jade config --model_conf=model.yml --data_conf=data.yml --epochs=1 | head -1"
    result = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert result.stdout.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert "Broken" not in result.stderr


MODULES = """
import sys
from jade.cli import main
for mistake in ({mistakes}):
    assert main([*{arguments}, *mistake]) == 2
    print("torch" in sys.modules)
"""


def test_mistakes_in_flags_are_told_before_torch_is_imported(project, arguments):
    mistakes = (["--epohs=3"], ["--epochs=ten"], ["--eval_conf=no.yml"], ["--modules=none"], ["-q"])
    code = MODULES.format(mistakes=", ".join(map(str, mistakes)), arguments=arguments)

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == ["False"] * len(mistakes)
    assert "There is no flag --epohs. Did you mean --epochs?" in result.stderr
    assert "Classes and their parameters come after that; `jade check`" in result.stderr


def test_mistake_in_a_file_waits_for_what_classes_tell(project, jade):
    project.write("run.yml", "keep_last: 0\nmodel: {params: {lrr: 1}}\n")

    result = jade("train", "--config=run.yml")

    assert "2 problems" in result.err


def test_end_of_a_run_is_told_once_and_stands_in_its_log(project, jade):
    result = jade("train", "--epochs=1")

    assert (result.out + result.err).count("finished: 1 epoch done") == 1
    (log,) = project.root.glob("experiments/*/run.log")
    assert "finished: 1 epoch done" in log.read_text()

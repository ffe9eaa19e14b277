"""A run that was trained can be loaded again: its metrics, its datasets, its trainer."""

import csv
import json
import random
import shutil
import subprocess
import sys

import pytest
import torch
import yaml

import jade
from jade.class_index import LIBRARIES
from jade.errors import CheckpointError, ConfigError, MissingDataError
from jade.fence import HARMLESS
from jade.loaded_run import load_run


def everything_below(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def weights(trainer):
    return torch.cat([value.detach().ravel() for value in trainer.state_dict().values()])


def test_run_is_found_by_directory_and_by_id(trained, monkeypatch, tmp_path):
    directory = trained()
    assert load_run(directory).directory == directory
    assert load_run(directory.name).directory == directory
    monkeypatch.setenv("EXPERIMENTS_ROOT", str(directory.parent))
    monkeypatch.chdir(tmp_path)
    assert load_run(directory.name).run_id == directory.name
    monkeypatch.delenv("EXPERIMENTS_ROOT")
    (tmp_path / ".env").write_text(f"EXPERIMENTS_ROOT={directory.parent}\n")
    assert load_run(directory.name).run_id == directory.name
    assert load_run(directory.name, root=directory.parent).directory == directory


def test_run_that_is_unknown_suggests_near_ids(trained):
    directory = trained()
    with pytest.raises(ConfigError, match=rf"Did you mean '{directory.name}'\?"):
        load_run(directory.name[:-1] + "_")
    with pytest.raises(ConfigError, match=rf"Did you mean '{directory.name}'\?"):
        load_run(directory.name[-6:])


def test_run_in_a_folder_without_any_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"below .* there is none at all"):
        load_run("r1", root=tmp_path)
    with pytest.raises(ConfigError, match=r"is not the directory of a run"):
        load_run(tmp_path)


def test_config_is_nested_and_not_expanded(trained, monkeypatch):
    monkeypatch.setenv("SIZE", "12")
    run = load_run(trained("--data.train.params.n=$SIZE"))
    assert run.config["model"]["params"]["lr"] == 0.1
    assert run.config["data"]["train"]["params"]["n"] == "$SIZE"


def test_status_is_what_the_run_says_of_itself(trained):
    run = load_run(trained())
    assert run.status["status"] == "finished"
    assert run.summary["run/epochs"] == 2
    with pytest.raises(TypeError):
        run.status["status"] = "failed"


def test_trainer_has_the_weights_of_the_last_checkpoint_and_is_in_eval_mode(project, trained):
    directory = trained()
    trainer = load_run(directory).trainer()
    stored = torch.load(directory / "checkpoints/last.pt", weights_only=True)["trainer"]
    assert torch.equal(trainer.net.layer.weight, stored["modules"]["net.layer.weight"])
    assert (trainer.iterations, trainer.epochs) == (6, 2)
    assert not trainer.net.training


def test_trainer_continues_as_its_optimizer_left_off(project, trained):
    project.write(
        "modules/models/line.py",
        (project.root / "modules/models/line.py").read_text().replace("lr=lr", "lr, momentum=0.9"),
    )
    trainer = load_run(trained()).trainer()
    assert all("momentum_buffer" in kept for kept in trainer.opt.state.values())
    assert len(trainer.opt.state) == 2


def test_trainer_stored_attributes_are_loaded(project, trained):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace(
        "self.net =",
        "self.seen = 0\n        self.add_attribute_to_store('seen')\n        self.net =",
    )
    text = text.replace("loss.backward()", "loss.backward()\n        self.seen += len(data['x'])")
    project.write("modules/models/line.py", text)
    assert load_run(trained()).trainer().seen == 20


def test_trainer_loose_modules_are_loaded_in_eval_mode(project, trained):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("self.opt =", "self.more = [torch.nn.Linear(1, 1)]\n        self.opt =")
    project.write("modules/models/line.py", text)
    directory = trained()
    trainer = load_run(directory).trainer()
    stored = torch.load(directory / "checkpoints/last.pt", weights_only=True)["trainer"]
    assert torch.equal(trainer.more[0].weight, stored["stateful"]["more[0]"]["weight"])
    assert not trainer.more[0].training


def test_checkpoint_is_chosen_by_name_iteration_or_path(trained):
    directory = trained("--best_metric=Error", "--best_mode=max", "--checkpoint_every=1 iteration")
    run = load_run(directory)
    # The error only falls, so the greatest one was measured before the first step.
    assert run.trainer().iterations == 0
    assert run.trainer("best").iterations == 0
    assert run.trainer("last").iterations == 6
    assert run.trainer(3).iterations == 3
    assert run.trainer(directory / "checkpoints/checkpoint_5.pt").iterations == 5
    kinds = [(item.kind, item.iteration) for item in run.checkpoints()]
    assert kinds == [("last", 6), ("best", 0), *(("periodic", i) for i in range(1, 7))]
    assert all(item.path.is_file() for item in run.checkpoints())


def test_checkpoint_that_is_missing_is_refused_with_those_that_exist(trained):
    run = load_run(trained("--checkpoint_every=2 iterations"))
    with pytest.raises(ConfigError, match=r"has no checkpoint '3'\. Known: 2, 4, 6, last\."):
        run.trainer(3)
    with pytest.raises(ConfigError, match=r"no checkpoint 'lsat'\. Did you mean 'last'\?"):
        run.trainer("lsat")


def test_run_that_has_just_begun_can_be_loaded(trained):
    directory = trained()
    shutil.rmtree(directory / "checkpoints")
    (directory / "metrics.csv").unlink()
    (directory / "status.json").write_text('{"status": "running"}')
    run = load_run(directory)
    assert run.status["status"] == "running"
    assert (run.checkpoints(), len(run.metrics), run.metrics.last) == ([], 0, {})
    assert repr(run) == f"LoadedRun({directory.name}, running, checkpoints: none)"
    with pytest.raises(ConfigError, match=r"has no checkpoint yet\."):
        run.trainer()


def test_loading_writes_nothing_and_draws_no_random_numbers(trained, monkeypatch):
    directory = trained()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setenv("WANDB_MODE", "online")
    before = everything_below(directory)
    states = (torch.get_rng_state(), random.getstate())
    for trust_code in (False, True):
        run = load_run(directory, trust_code=trust_code)
        run.trainer()
        assert len(run.datasets["test"]) == 10
        assert run.metrics["loss"]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert everything_below(directory) == before
    assert not (directory.parent.parent / "wandb").exists()


def test_trainer_is_built_with_the_seed_of_its_run(project, trained):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("self.opt =", "self.noise = torch.rand(1).item()\n        self.opt =")
    project.write("modules/models/line.py", text)
    first, second = load_run(trained("--seed=5")), load_run(trained("--seed=6"))
    assert first.trainer().noise == first.trainer().noise != second.trainer().noise


def test_datasets_are_built_with_the_variables_of_this_machine(trained, monkeypatch):
    monkeypatch.setenv("SIZE", "12")
    run = load_run(trained("--data.train.params.n=$SIZE", "--data.test.params.n=$SIZE"))
    monkeypatch.setenv("SIZE", "7")
    assert (len(load_run(run.directory).datasets["train"]), list(run.datasets)) == (
        7,
        ["train", "test"],
    )


def test_datasets_draw_the_numbers_that_they_drew_in_the_run(project, trained):
    project.write(
        "modules/data/noise.py",
        """
        import torch
        from torch.utils.data import TensorDataset

        class Noise(TensorDataset):
            def __init__(self):
                x = torch.randn(8, 2)
                super().__init__(x)
        """,
    )
    project.write(
        "data.yml", "train: {class: Points}\ntest: {class: Points}\nnoise: {class: Noise}\n"
    )
    directory = trained()
    first, again = load_run(directory).datasets["noise"], load_run(directory).datasets["noise"]
    assert torch.equal(first.tensors[0], again.tensors[0])


def test_dataset_that_is_missing_does_not_keep_the_trainer_from_loading(trained, monkeypatch):
    monkeypatch.setenv("SIZE", "12")
    directory = trained("--data.train.params.n=$SIZE")
    monkeypatch.delenv("SIZE")
    run = load_run(directory)
    trainer = run.trainer()
    assert trainer.net(torch.zeros(1, 2)).shape == (1, 1)
    # Its size is on record, so that loaders and schedules are what they were.
    assert len(trainer.train_loader) == 3
    with pytest.raises(
        MissingDataError, match=r"(?s)'train' cannot be built.*SIZE for data.train.params.n"
    ):
        next(iter(trainer.train_loader))
    with pytest.raises(jade.VariableError):
        run.datasets["train"]


def test_dataset_that_is_missing_may_be_of_unknown_size(project, trained, monkeypatch):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("DataLoader(", "self.make_loader(")
    project.write("modules/models/line.py", text)
    monkeypatch.setenv("SIZE", "12")
    directory = trained("--data.train.params.n=$SIZE")
    monkeypatch.delenv("SIZE")
    provenance = json.loads((directory / "provenance.json").read_text())
    assert provenance.pop("samples") == {"train": 12, "test": 10}
    (directory / "provenance.json").write_text(json.dumps(provenance))
    trainer = load_run(directory).trainer()
    with pytest.raises(MissingDataError, match="its size was asked for"):
        len(trainer.train_loader)


CHANGED = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self, n_out):
            super().__init__()
            self.layer = nn.Linear(3, n_out)

        def forward(self, x):
            return self.layer(x)
"""


def test_code_that_has_changed_is_named_with_what_does_not_fit(project, trained):
    directory = trained()
    project.write("modules/architectures/small.py", CHANGED)
    (project.root / "modules/eval/errors.py").unlink()
    with pytest.raises(CheckpointError) as caught:
        load_run(directory).trainer()
    message = str(caught.value)
    assert "net.layer.weight has the shape (1, 2) in the checkpoint, (1, 3) here" in message
    assert "- modules/architectures/small.py\n" in message
    assert "- modules/eval/errors.py (is gone)\n" in message
    assert "modules/data/points.py" not in message
    assert "trust_code=True" in message


def test_code_that_fails_now_is_explained_with_its_own_error(project, trained):
    directory = trained()
    project.write("modules/architectures/small.py", "class Net:\n    def __init__(self): pass\n")
    with pytest.raises(ConfigError, match=r"(?s)does not take these.*small\.py.*trust_code"):
        load_run(directory).trainer()


def test_code_of_the_run_is_used_when_it_is_trusted(project, trained):
    directory = trained()
    shutil.rmtree(project.root / "modules")
    before = (dict(sys.modules), list(sys.path))
    trainer = load_run(directory, trust_code=True).trainer()
    assert trainer.net.layer.weight.shape == (1, 2)
    # Whoever imports modules.models next gets none of it.
    assert (dict(sys.modules), list(sys.path)) == before


def test_code_of_the_run_is_not_executed_unless_it_is_trusted(project, trained):
    directory = trained()
    mark = project.root / "executed"
    for path in (directory / "code").rglob("*.py"):
        path.write_text(f"{path.read_text()}\nopen({str(mark)!r}, 'w').close()\n")
    load_run(directory).trainer()
    assert not mark.exists()
    load_run(directory, trust_code=True).trainer()
    assert mark.exists()


def test_run_that_has_kept_no_code_says_so_when_it_is_trusted(trained):
    directory = trained()
    shutil.rmtree(directory / "code")
    with pytest.raises(ConfigError, match=r"has kept no code"):
        load_run(directory, trust_code=True).trainer()


def test_checkpoint_of_another_place_is_loaded_by_its_path(trained, tmp_path):
    first, second = trained(), trained("--epochs=1")
    shutil.copy(second / "checkpoints/last.pt", tmp_path / "mine.pt")
    assert load_run(first).trainer(tmp_path / "mine.pt").iterations == 3


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("modules: []", "modules: [{}/code/modules]"),
        ("arch_impl: modules/", "arch_impl: {}/code/modules/"),
        ("class: LineTrainer", "class: {}/code/modules/models/line.py:LineTrainer"),
    ],
)
def test_run_that_names_code_of_its_own_directory_is_refused(trained, setting, value):
    config = trained() / "config.yml"
    assert setting in config.read_text()
    config.write_text(config.read_text().replace(setting, value.format(config.parent)))
    with pytest.raises(
        ConfigError, match=r"belongs to the run, whose code is executed with load_run"
    ):
        load_run(config.parent).trainer()


def test_trusted_code_of_a_class_with_a_path_is_that_of_the_copy(project, trained):
    outside = project.root.parent / "line.py"
    shutil.copy(project.root / "modules/models/line.py", outside)
    directory = trained(f"--model.class={outside}:LineTrainer")
    outside.write_text("raise AssertionError('executed')\n")
    assert type(load_run(directory, trust_code=True).trainer()).__name__ == "LineTrainer"


def test_trusted_code_is_never_replaced_by_a_file_from_elsewhere(project, trained):
    outside = project.root.parent / "line.py"
    shutil.copy(project.root / "modules/models/line.py", outside)
    directory = trained("--model.class=../line.py:LineTrainer")
    config = directory / "config.yml"
    config.write_text(config.read_text().replace("../line.py", f"{outside.parent}/./line.py"))
    with pytest.raises(ConfigError, match=r"is not in the copy of the code"):
        load_run(directory, trust_code=True).trainer()


def test_trusted_code_includes_what_the_project_imports_from_beside_its_modules(
    project, trained, monkeypatch
):
    monkeypatch.syspath_prepend(str(project.root))
    project.write("toolbox/sizes.py", "SIZE = 5\n")
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("import torch\n", "import torch\nfrom toolbox.sizes import SIZE\n", 1)
    project.write(
        "modules/models/line.py",
        text.replace("self.opt =", "self.size = SIZE\n        self.opt =", 1),
    )
    directory = trained()
    assert (directory / "code/toolbox/sizes.py").read_text() == "SIZE = 5\n"
    sys.modules["toolbox.sizes"].SIZE = 6
    assert load_run(directory, trust_code=True).trainer().size == 5
    assert sys.modules["toolbox.sizes"].SIZE == 6


def test_two_runs_with_different_code_of_the_same_names_keep_their_own_classes(project, trained):
    project.write("modules/helper.py", "SIZE = 2\n")
    model = project.root / "modules/models/line.py"
    model.write_text(
        model.read_text().replace(
            "self.net =",
            "from modules.helper import SIZE\n        self.size = SIZE\n        self.net =",
        )
    )
    first = trained()
    project.write("modules/helper.py", "SIZE = 30\n")
    second = trained()
    project.write("modules/helper.py", "SIZE = 400\n")
    runs = [load_run(path, trust_code=True) for path in (first, second)]
    old, new = (run.trainer() for run in runs)
    assert (old.size, new.size, load_run(second).trainer().size) == (2, 30, 400)
    assert type(old) is not type(new)
    # Again, after the other one: a run has its classes once.
    assert type(runs[0].trainer()) is type(old)
    assert runs[0].trainer().size == 2


@pytest.mark.parametrize(("folder", "beside"), [("nets", "factor"), ("../nets", "factors")])
def test_two_runs_with_different_files_beside_their_architectures_keep_their_own(
    project, trained, folder, beside
):
    outside = (project.root / folder).resolve()
    outside.mkdir()
    text = (project.root / "modules/architectures/small.py").read_text()
    text = text.replace("super().__init__()", "super().__init__()\n        self.factor = FACTOR")
    (outside / "small.py").write_text(f"from {beside} import FACTOR\n{text}")
    runs = []
    for factor in (2, 30):
        (outside / f"{beside}.py").write_text(f"FACTOR = {factor}\n")
        runs.append(trained(f"--arch_impl={outside}/small.py"))
    (outside / f"{beside}.py").write_text("FACTOR = 400\n")
    loaded = [load_run(directory, trust_code=True).trainer().net.factor for directory in runs]
    assert loaded == [2, 30]


def test_trusted_code_from_outside_the_project_is_found(project, trained, tmp_path):
    outside = tmp_path / "outside"
    shutil.move(project.root / "modules", outside / "mods")
    (outside / "nets").mkdir()
    shutil.move(outside / "mods/architectures/small.py", outside / "nets/small.py")
    (outside / "nets/layers.py").write_text("from torch.nn import Linear\n")
    text = (outside / "nets/small.py").read_text()
    (outside / "nets/small.py").write_text(
        "import layers\n" + text.replace("nn.Linear", "layers.Linear")
    )
    directory = trained(f"--modules={outside}/mods", f"--arch_impl={outside}/nets/small.py")
    shutil.rmtree(outside)
    trainer = load_run(directory, trust_code=True).trainer()
    assert type(trainer).__module__ == "mods.models.line"
    assert trainer.net.layer.weight.shape == (1, 2)


@pytest.mark.parametrize(
    "load", [lambda run: run.trainer(), lambda run: run.datasets["train"]], ids=["trainer", "data"]
)
def test_run_that_is_loaded_from_another_folder_says_where_its_project_is(
    project, trained, monkeypatch, tmp_path, load
):
    directory = trained()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load(load_run(directory))
    assert f"the run was started in {project.root}: change to" in str(caught.value)
    assert "load_run(..., trust_code=True)" in str(caught.value)
    assert load_run(directory, trust_code=True).trainer().iterations == 6


def test_run_of_a_project_that_has_moved_is_loaded_from_its_new_folder(
    project, trained, monkeypatch
):
    name = trained().name
    moved = project.root.rename(project.root.parent / "moved")
    monkeypatch.chdir(moved)
    assert load_run(name).trainer().iterations == 6


@pytest.fixture
def foreign(project, trained):
    """Change the configuration of a run as a stranger would; what it executes leaves a mark."""
    directory = trained()
    mark = project.root.parent / "executed"

    def change(**sections):
        path = directory / "config.yml"
        values = yaml.safe_load(path.read_text())
        for key, value in sections.items():
            is_section = isinstance(value, dict) and key != "model"
            values[key] = {**values[key], **value} if is_section else value
        path.write_text(yaml.safe_dump(values))
        return directory

    change.mark = mark
    change.directory = directory
    change.code = f"open({str(mark)!r}, 'w').close()\n"
    change.command = {"class": "subprocess.Popen", "params": {"args": ["touch", str(mark)]}}
    return change


def build_everything(run):
    """Build all that a run describes, and return what was said against it."""
    problems = []
    for build in (lambda: run.datasets["train"], run.trainer):
        try:
            built = build()
            if isinstance(built, subprocess.Popen):
                built.wait()
        except ConfigError as error:
            problems.append(str(error))
    return "\n".join(problems)


def test_foreign_run_executes_no_command_as_a_dataset(foreign):
    directory = foreign(data={"train": foreign.command})
    problems = build_everything(load_run(directory))
    assert "data.train.class: the run names 'subprocess.Popen'" in problems
    assert "trust_code=True" in problems
    assert not foreign.mark.exists()


def test_trusted_run_may_name_any_class(foreign):
    directory = foreign(data={"train": foreign.command})
    load_run(directory, trust_code=True).datasets["train"].wait()
    assert foreign.mark.exists()


def test_foreign_run_executes_no_command_among_parameters(foreign):
    nested = {"class": "torch.utils.data.ConcatDataset", "params": {"datasets": [foreign.command]}}
    problems = build_everything(load_run(foreign(data={"train": nested})))
    assert "data.train.params.datasets.[0].class: the run names 'subprocess.Popen'" in problems
    assert not foreign.mark.exists()


@pytest.mark.parametrize(
    "name", ["modules/data/points.py:Popen", "modules.data.points.Popen", "torch.nn.__class__"]
)
def test_foreign_run_gets_no_class_that_allowed_code_has_only_imported(project, foreign, name):
    text = (project.root / "modules/data/points.py").read_text()
    project.write("modules/data/points.py", "from subprocess import Popen\n" + text)
    directory = foreign(data={"train": {**foreign.command, "class": name}})
    assert "data.train.class: the run names" in build_everything(load_run(directory))
    assert not foreign.mark.exists()


def test_foreign_run_gets_no_class_that_unpickles_files(foreign):
    name = "torch.utils.data.datapipes.iter.RoutedDecoder"
    directory = foreign(data={"train": {"class": name, "params": {"datapipe": []}}})
    assert f"the run names {name!r}" in build_everything(load_run(directory))


@pytest.mark.parametrize("place", ["beside the run", "beside the project", "anywhere"])
def test_foreign_run_executes_no_modules_from_elsewhere(
    project, foreign, tmp_path, monkeypatch, place
):
    root = tmp_path / "theirs"
    shutil.copytree(project.root / "modules", root / "evilmods")
    for path in (root / "evilmods").rglob("*.py"):
        path.write_text(foreign.code + path.read_text())
    named = {"anywhere": str(root / "evilmods"), "beside the project": "../theirs/evilmods"}
    run = shutil.copytree(foreign(modules=[named.get(place, "evilmods")]), root / "run1")
    assert build_everything(load_run(run))
    monkeypatch.chdir(tmp_path)
    assert build_everything(load_run(run))
    assert not foreign.mark.exists()


def test_foreign_run_executes_no_modules_that_were_unpacked_with_it_below_the_project(
    project, foreign
):
    theirs = project.root / "theirs"
    shutil.copytree(project.root / "modules", theirs / "evilmods")
    for path in (theirs / "evilmods").rglob("*.py"):
        path.write_text(foreign.code + path.read_text())
    run = shutil.copytree(foreign(modules=["theirs/evilmods"]), theirs / "run1")
    assert "belongs to the run" in build_everything(load_run(run))
    assert not foreign.mark.exists()


def test_foreign_run_puts_no_folder_on_the_path_of_the_project(project, foreign, tmp_path):
    (tmp_path / "evil/mods").mkdir(parents=True)
    (tmp_path / "evil/helper_of_points.py").write_text(foreign.code)
    text = (project.root / "modules/data/points.py").read_text()
    project.write(
        "modules/data/points.py",
        f"try:\n    import helper_of_points\nexcept ImportError:\n    pass\n{text}",
    )
    directory = foreign(modules=[str(tmp_path / "evil/mods"), "modules"])
    assert "is not below the working directory" in build_everything(load_run(directory))
    assert not foreign.mark.exists()


@pytest.mark.parametrize("folder", ["{outside}", ".."])
def test_foreign_run_executes_no_file_outside_the_project(project, foreign, folder):
    outside = project.root.parent
    (outside / "evil.py").write_text(f"{foreign.code}class X: pass\n")
    name = f"{folder.format(outside=outside)}/evil.py:X"
    problems = build_everything(load_run(foreign(data={"train": {"class": name}})))
    assert "data.train.class: " in problems
    assert "is not below the working directory" in problems
    assert not foreign.mark.exists()


def test_foreign_run_executes_no_architectures_outside_the_project(project, foreign):
    outside = project.root.parent / "evil.py"
    text = (project.root / "modules/architectures/small.py").read_text()
    outside.write_text(foreign.code + text)
    problems = build_everything(load_run(foreign(arch_impl=str(outside))))
    assert "is not below the working directory" in problems
    assert not foreign.mark.exists()


def test_foreign_run_executes_no_installed_file_of_an_environment_in_the_project(project, foreign):
    project.write(".venv/lib/site-packages/evil.py", f"{foreign.code}class X: pass\n")
    name = ".venv/lib/site-packages/evil.py:X"
    problems = build_everything(load_run(foreign(data={"train": {"class": name}})))
    assert "is an installed file" in problems
    assert not foreign.mark.exists()


def test_foreign_run_sets_no_variables_by_a_file_of_its_own(foreign):
    env_file = foreign.directory / "evil.env"
    env_file.write_text("SIZE_OF_POINTS=7\n")
    train = {"class": "Points", "params": {"n": "$SIZE_OF_POINTS"}}
    directory = foreign(data={"train": train}, env_file=str(env_file))
    with pytest.raises(jade.VariableError):
        load_run(directory).datasets["train"]
    assert len(load_run(directory, trust_code=True).datasets["train"]) == 7


def test_foreign_run_may_name_classes_of_torch(foreign):
    nested = {"class": "ConcatDataset", "params": {"datasets": [{"class": "Points"}]}}
    directory = foreign(data={"train": nested})
    assert len(load_run(directory).datasets["train"]) == 10


def test_libraries_in_which_bare_names_are_found_are_harmless():
    assert all(name.startswith(HARMLESS) for name in LIBRARIES)


def test_metrics_are_a_table_of_what_was_logged(trained):
    directory = trained("--log_loss_every=1 iteration")
    metrics = load_run(directory).metrics
    with (directory / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert metrics.columns == list(rows[0])
    assert metrics["iteration"] == [int(row["iteration"]) for row in rows]
    assert metrics["Error"] == [float(row["Error"]) if row["Error"] else None for row in rows]
    assert metrics.last["Error"] == float(rows[-1]["Error"])
    assert len(metrics) == len(metrics.rows) == len(rows)

"""A model in one file: nothing of it is executed by opening it, and nothing damaged is used."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

import jade
from jade.cli import main
from jade.errors import CheckpointError, ConfigError, MissingDataError
from jade.loaded_model import load_model
from jade.loaded_run import load_run
from jade.model_file import write_model

ROOT = Path(__file__).parent.parent
IN_MEMORY = """
    import torch

    from jade import Trainer


    class LineTrainer(Trainer):
        def initialize(self, lr: float = 0.1, batch_size: int = 4, shuffle: bool = True):
            self.net = self.instantiate_architecture("Net", n_out=1)
            self.opt = torch.optim.SGD(self.net.parameters(), lr=lr)
            self.train_loader = self.make_loader("train", batch_size, shuffle=shuffle)

        def train_step(self, data):
            loss = ((self.net(data["x"]) - data["y"]) ** 2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""


@pytest.fixture
def exported(project, trained, tmp_path):
    """Train and export, and return the run directory and the file, which is elsewhere."""

    def export(*more):
        directory, path = trained(*more), tmp_path / "elsewhere" / "model.jade"
        path.parent.mkdir(exist_ok=True)
        assert main(["export", str(directory), str(path)]) == 0
        return directory, path

    return export


def rewrite(path, changes, *, manifest=None, compressed=()):
    """Write the file again with other members; the digests stay unless told otherwise."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(changes)
    if manifest is not None:
        values = json.loads(members["manifest.json"])
        manifest(values)
        members["manifest.json"] = json.dumps(values).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if content is not None:
                kind = zipfile.ZIP_DEFLATED if name in compressed else zipfile.ZIP_STORED
                archive.writestr(name, content, kind)


def test_export_says_what_it_wrote(trained, tmp_path, capsys):
    directory = trained("--best_metric=Error")
    path = tmp_path / "model.jade"
    assert main(["export", directory.name, str(path), "--checkpoint=last"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert f"last checkpoint of run {directory.name}, iteration 6, 4 source files" in said
    assert load_run(directory).export(path).checkpoint == "best"
    assert load_model(path).provenance["checkpoint"] == "best"


def test_export_of_what_does_not_exist_is_refused(trained, tmp_path, capsys):
    directory = trained()
    assert main(["export", "nonsense", "model.jade"]) == 2
    assert main(["export", directory.name, "model.jade", "--checkpoint=best"]) == 2
    assert "has no checkpoint 'best'. Known: last." in capsys.readouterr().err
    assert main(["export", directory.name, "model.pt"]) == 2
    assert "the name of a model file ends in .jade" in capsys.readouterr().err
    assert main(["export", directory.name, "nowhere/model.jade"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err
    assert main(["export", directory.name]) == 2
    assert not list(Path().glob("*.jade"))


def test_export_help_is_given(capsys):
    assert main(["export", "--help"]) == 0
    assert "trust_code=True" in capsys.readouterr().out


def test_model_file_tells_what_it_is_without_executing_anything(exported, project, monkeypatch):
    monkeypatch.setenv("SIZE", "12")
    directory, path = exported("--data.train.params.n=$SIZE", "--best_metric=Error")
    for source in (project.root / "modules").rglob("*.py"):
        source.write_text("raise AssertionError('executed')\n")
    model = load_model(path)
    assert model.config["data"]["train"]["params"]["n"] == "$SIZE"
    assert (
        model.sources["modules/models/line.py"]
        == (directory / "code/modules/models/line.py").read_text()
    )
    assert model.versions["jade"] == jade.__version__
    assert model.versions["packages"]["torch"]
    assert model.provenance["run_id"] == directory.name
    error = load_run(directory).metrics.last["Error"]
    assert model.metrics["last"]["Error"] == model.metrics["checkpoint"]["Error"] == error
    assert model.metrics["best"] == {"metric": "Error", "value": error, "iteration": 6}
    stored = torch.load(directory / "checkpoints/best.pt", weights_only=True)["trainer"]
    weight = model.state["modules"]["net.layer.weight"]
    assert torch.equal(weight, stored["modules"]["net.layer.weight"])
    assert repr(model).startswith(
        f"LoadedModel(LineTrainer of run {directory.name}, best checkpoint"
    )


def test_model_file_holds_no_optimizer_and_nothing_of_the_machine(exported, project, monkeypatch):
    monkeypatch.setenv("EXPERIMENTS_ROOT", str(project.root / "experiments"))
    _, path = exported(
        f"--arch_impl={project.root}/modules/architectures/small.py", "--notes=a secret"
    )
    assert load_model(path).state["stateful"] == {}
    with zipfile.ZipFile(path) as archive:
        texts = b"".join(archive.read(n) for n in archive.namelist() if n != "weights.pt")
    assert str(project.root).encode() not in texts
    assert os.uname().nodename.encode() not in texts
    assert b"a secret" not in texts


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["DataLoader", "make_loader"])
def test_model_loads_in_another_process_without_project_and_data(
    exported, project, trainer, monkeypatch
):
    if trainer == "make_loader":
        project.write("modules/models/line.py", IN_MEMORY)
    monkeypatch.setenv("SIZE", "12")
    directory, path = exported("--data.train.params.n=$SIZE", "--data.test.params.n=$SIZE")
    project.root.rename(project.root.with_name("gone"))
    script = f"""
        import json, torch, jade

        trainer = jade.load_model({str(path)!r}, trust_code=True).trainer()
        try:
            next(iter(trainer.train_loader))
        except jade.MissingDataError as error:
            message = str(error)
        print(json.dumps([trainer.net(torch.ones(1, 2)).item(), len(trainer.train_loader),
                          trainer.training, trainer.iterations, message]))
    """
    environ = {k: v for k, v in os.environ.items() if k != "SIZE"} | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=path.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    output, num_batches, is_training, iterations, message = json.loads(result.stdout)
    stored = torch.load(
        project.root.with_name("gone") / "experiments" / directory.name / "checkpoints/last.pt"
    )
    layer = stored["trainer"]["modules"]
    assert output == pytest.approx(
        (layer["net.layer.weight"].sum() + layer["net.layer.bias"]).item()
    )
    assert (num_batches, is_training, iterations) == (3, False, 6)
    assert "The dataset 'train' cannot be built on this machine" in message
    assert "SIZE" in message


def test_model_code_is_not_executed_unless_it_is_trusted(exported):
    _, path = exported()
    with pytest.raises(ConfigError) as caught:
        load_model(path).trainer()
    message = str(caught.value)
    assert "- modules/models/line.py" in message
    assert ".sources" in message
    assert "trust_code=True" in message


def test_model_uses_data_that_is_here_and_disturbs_no_random_numbers(exported):
    _, path = exported()
    before = torch.get_rng_state()
    trainer = load_model(path, trust_code=True).trainer()
    assert torch.equal(torch.get_rng_state(), before)
    assert next(iter(trainer.train_loader))["x"].shape == (4, 2)


def test_model_loose_networks_and_stored_attributes_are_loaded(exported, project):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace(
        "self.opt =",
        "self.more = [torch.nn.Linear(1, 1)]\n        self.scale = torch.ones(2, requires_grad=True)\n"
        "        self.seen = 0\n        self.add_attribute_to_store('seen')\n        self.opt =",
    )
    text = text.replace(
        "loss.backward()",
        "loss.backward()\n        self.seen += 1\n        self.scale.data += 1\n"
        "        self.more[0].weight.data.fill_(7)",
    )
    project.write("modules/models/line.py", text)
    _, path = exported()
    trainer = load_model(path, trust_code=True).trainer()
    assert (trainer.seen, trainer.more[0].weight.item(), trainer.scale.tolist()) == (6, 7, [7, 7])


def test_model_counter_that_ended_the_training_is_loaded(exported, project):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace("self.opt =", "self.episodes = 0\n        self.opt =", 1)
    text = text.replace("loss.backward()", "loss.backward()\n        self.episodes += 2")
    project.write("modules/models/line.py", text)
    directory, path = exported("--train_for=4 episodes")
    assert load_run(directory).trainer().episodes == 4
    assert load_model(path, trust_code=True).trainer().episodes == 4


def test_model_that_needs_its_data_says_so(exported, project):
    text = (project.root / "modules/models/line.py").read_text()
    text = text.replace(
        "self.net =", "self.mean = self.datasets['train'].x.mean()\n        self.net ="
    )
    project.write("modules/models/line.py", text)
    os.environ["SIZE"] = "12"
    _, path = exported("--data.train.params.n=$SIZE")
    del os.environ["SIZE"]
    with pytest.raises(MissingDataError, match=r"'train' cannot be built.*its attribute 'x'"):
        load_model(path, trust_code=True).trainer()


@pytest.mark.parametrize(
    "name", ["weights.pt", "config.yml", "facts.json", "code/modules/models/line.py"]
)
def test_model_file_with_a_changed_member_is_refused_by_its_name(exported, name):
    _, path = exported()
    with zipfile.ZipFile(path) as archive:
        content = bytearray(archive.read(name))
    content[len(content) // 2] ^= 1
    rewrite(path, {name: bytes(content)})
    with pytest.raises(CheckpointError, match=f"{name} is refused, its content has changed"):
        load_model(path)


def test_model_file_with_a_flipped_bit_is_refused_by_the_name_of_the_member(exported):
    _, path = exported()
    content = bytearray(path.read_bytes())
    content[content.index(b"class LineTrainer")] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"code/modules/models/line\.py is refused"):
        load_model(path)


@pytest.mark.parametrize("name", ["weights.pt", "config.yml", "code/modules/models/line.py"])
def test_model_file_that_lacks_a_member_is_refused_by_its_name(exported, name):
    _, path = exported()
    rewrite(path, {name: None})
    with pytest.raises(CheckpointError, match=f"{name} is refused, it is missing"):
        load_model(path)


def test_model_file_with_a_member_that_is_not_in_the_manifest_is_refused(exported):
    _, path = exported()
    rewrite(path, {"code/more.py": b""})
    with pytest.raises(
        CheckpointError, match=r"code/more\.py is refused, it does not belong there"
    ):
        load_model(path)


@pytest.mark.parametrize(
    "name",
    ["code/../../evil.py", "/evil.py", "code//evil.py", "evil.py", "code/a:b.py", "code/./a.py"],
)
def test_model_file_whose_names_lead_elsewhere_is_refused(exported, name):
    _, path = exported()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    rewrite(path, {name: b""}, manifest=lambda values: values["members"].update({name: empty}))
    with pytest.raises(CheckpointError, match=r"its name leads out of the folder of the code"):
        load_model(path)


def test_model_file_that_is_compressed_is_refused(tmp_path):
    path = tmp_path / "model.jade"
    write_model(path, state={}, config={}, facts={}, sources={})
    rewrite(path, {"config.yml": os.urandom(1000)}, compressed=["config.yml"])
    with pytest.raises(CheckpointError, match=r"it is compressed or encrypted"):
        load_model(path)


def test_model_file_that_would_become_larger_than_itself_is_refused(tmp_path):
    path = tmp_path / "model.jade"
    write_model(path, state={}, config={}, facts={}, sources={"a.py": b"#" * 10_000})
    rewrite(path, {}, compressed=["code/a.py"])
    with pytest.raises(CheckpointError, match=r"its members are larger than itself"):
        load_model(path)


def test_model_file_that_is_no_project_by_its_size_is_refused(tmp_path):
    path = tmp_path / "model.jade"
    write_model(path, state={}, config={}, facts={}, sources={"a.py": b"#" * 50_000_001})
    with pytest.raises(CheckpointError, match=r"code/a\.py is refused, it has 50,000,001 bytes"):
        load_model(path)
    many = {f"{number}.py": b"" for number in range(10_000)}
    write_model(path, state={}, config={}, facts={}, sources=many)
    with pytest.raises(CheckpointError, match=r"it has 10,003 members"):
        load_model(path)


def test_model_file_that_holds_a_name_twice_is_refused(tmp_path):
    path = tmp_path / "model.jade"
    write_model(path, state={}, config={}, facts={}, sources={"a.py": b"A = 1\n"})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("code/a.py", "A = 2\n")
    with pytest.raises(CheckpointError, match=r"code/a\.py is refused, it does not belong there"):
        load_model(path)


def test_model_file_whose_weights_are_something_else_is_refused(tmp_path):
    path = tmp_path / "model.jade"
    write_model(path, state={"trainer": {}}, config={}, facts={}, sources={})
    digest = hashlib.sha256(b"nothing").hexdigest()
    rewrite(
        path,
        {"weights.pt": b"nothing"},
        manifest=lambda v: v["members"].update({"weights.pt": digest}),
    )
    with pytest.raises(CheckpointError, match=r"weights\.pt is refused"):
        _ = load_model(path).state


def test_model_file_that_is_cut_or_something_else_is_refused(exported, tmp_path):
    directory, path = exported()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"damaged, or no model file"):
        load_model(path)
    with pytest.raises(ConfigError, match=r"not a model file: it has no manifest\.json"):
        load_model(directory / "checkpoints/last.pt")
    with pytest.raises(ConfigError, match=r"no model file .*Did you mean 'model\.jade'\?"):
        load_model(path.with_name("modle.jade"))
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(format=2), "has the format 2"),
        (lambda values: values.pop("members"), "manifest.json is refused"),
    ],
)
def test_model_file_with_another_manifest_is_refused(exported, change, message):
    _, path = exported()
    rewrite(path, {}, manifest=change)
    with pytest.raises(jade.JadeError, match=message):
        load_model(path)


def test_model_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model.jade"
    path.write_bytes(b"the old one")
    with pytest.raises(CheckpointError, match="cannot hold"):
        # Found out when everything else is written already.
        write_model(path, state={"a": object()}, config={}, facts={}, sources={"a.py": b"x"})
    assert path.read_bytes() == b"the old one"
    assert [item.name for item in tmp_path.glob("*model*")] == ["model.jade"]


def test_model_file_that_the_disk_refuses_is_a_clear_error(tmp_path):
    (tmp_path / "model.jade").mkdir()
    with pytest.raises(ConfigError, match=r"model\.jade cannot be written: Is a directory"):
        write_model(tmp_path / "model.jade", state={}, config={}, facts={}, sources={})


def test_two_models_of_the_same_names_keep_their_own_classes(exported, project, tmp_path):
    _, path = exported()
    first = path.rename(path.with_name("first.jade"))
    text = (project.root / "modules/architectures/small.py").read_text()
    project.write("modules/architectures/small.py", text.replace("return self", "return 0 * self"))
    _, second = exported()
    trainers = [load_model(item, trust_code=True).trainer() for item in (first, second)]
    x = torch.ones(1, 2)
    assert trainers[0].net(x).item() != 0
    assert trainers[1].net(x).item() == 0

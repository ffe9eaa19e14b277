"""What is found out about a machine before trials run on it."""

import os
import threading

import pytest

from jade.config import Sources, load
from jade.errors import ConfigError, MachineError
from jade.launch import preflight
from jade.launch.preflight import Preflight, examine_configurations, examine_folder, find_setting
from jade.origin import Origin
from jade.overrides import Override


def configure(project, data, environ, **settings):
    project.write("data.yml", data)
    given = {"data_conf": "data.yml", **settings}
    overrides = [Override(key, value, Origin("test")) for key, value in given.items()]
    return load(Sources(arguments=overrides, environ=environ))


def problems(configuration):
    return [str(f) for f in examine_configurations([configuration]) if f.is_problem]


def test_variables_that_are_not_set_are_named_with_their_place(project):
    data = "train:\n  class: Points\n  params:\n    root: $DATA_ROT/x\n    n: ${N:-3}\n"

    (text,) = problems(configure(project, data, {"DATA_ROOT": "/tmp"}))

    assert "data.train.params.root (data.yml:4) needs DATA_ROT, which is not set." in text
    assert "Is DATA_ROOT meant, which is set?" in text


def test_places_that_cannot_even_be_looked_at_are_problems(project, tmp_path):
    # As a file system whose server is gone, this raises something else than "not found".
    place = tmp_path / "mount"
    place.symlink_to("x" * 300)
    data = f"train:\n  class: Points\n  params: {{root: {place}/x}}\n"

    (text,) = problems(configure(project, data, {}))
    assert f"{place}/x cannot be reached: File name too long" in text

    (finding,) = examine_folder("experiments_root", place / "runs")
    assert finding.is_problem
    assert "cannot be written: File name too long" in finding.text


def test_data_that_is_not_there_is_named_unless_it_is_downloaded(project, tmp_path):
    data = "train:\n  class: Points\n  params: {root: $DATA_ROOT/x}\n"
    environ = {"DATA_ROOT": str(tmp_path)}

    (text,) = problems(configure(project, data, environ))
    assert f"{tmp_path}/x does not exist" in text

    downloaded = data.replace("}", ", download: true}")
    assert problems(configure(project, downloaded, environ)) == []
    (tmp_path / "x").mkdir()
    assert problems(configure(project, data, environ)) == []


def test_a_folder_is_tried(tmp_path, monkeypatch):
    (finding,) = examine_folder("there", tmp_path / "not" / "yet")
    assert not finding.is_problem
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "f").touch()
    (finding,) = examine_folder("file", tmp_path / "f")
    assert "cannot be written" in finding.text

    monkeypatch.setattr(preflight, "LEAST_FREE_BYTES", 2**60)
    (finding,) = examine_folder("full", tmp_path)
    assert "MiB left" in finding.text


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_a_problem(tmp_path):
    tmp_path.chmod(0o500)

    (finding,) = examine_folder("closed", tmp_path)

    assert "Permission denied" in finding.text


def test_all_problems_are_found_at_once(project, tmp_path):
    configuration = configure(project, "train: {class: A, params: {a: $A, b: $B}}", {})
    check = Preflight(
        configurations=[configuration],
        folders={"experiments_root": tmp_path},
        devices=["cpu"],
        environ={"HOME": str(tmp_path)},
        command_problems=["the program is gone."],
    )

    found = [finding.topic for finding in check.problems()]

    assert found == ["variables", "variables", "command", "login"]


def test_what_hangs_is_named_and_not_waited_for(tmp_path, monkeypatch):
    is_over = threading.Event()
    monkeypatch.setattr(preflight, "examine_folder", lambda *_: [is_over.wait(60)][:0])
    monkeypatch.setattr(preflight, "TIMEOUT_S", 0.1)
    check = Preflight(
        configurations=[],
        folders={"experiments_root": tmp_path},
        devices=["cpu"],
        environ={},
        command_problems=["comes after it"],
    )

    (finding,) = check.problems()
    is_over.set()

    assert f"experiments_root {tmp_path} has not answered" in str(finding)


def test_what_breaks_the_examination_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "examine_folder", lambda *_: 1 / 0)
    check = Preflight(
        configurations=[], folders={"experiments_root": tmp_path}, devices=["cpu"], environ={}
    )

    with pytest.raises(ZeroDivisionError):
        check.problems()


def test_a_setting_is_found_where_it_was_given(project):
    plain = configure(project, "{}", {})
    given = configure(project, "{}", {"R": "/r"}, experiments_root="$R/runs")
    variable = configure(project, "{}", {"EXPERIMENTS_ROOT": "elsewhere"})

    assert find_setting(plain, "experiments_root") == "experiments"
    assert find_setting(given, "experiments_root") == "/r/runs"
    assert find_setting(variable, "experiments_root") == "elsewhere"


def make_check(project, folder, **environ):
    return Preflight(
        configurations=[configure(project, "train: {class: A, params: {a: $A}}", {})],
        folders={"experiments_root": folder},
        devices=["auto"],
        environ=environ,
        needs_login=False,
    )


def test_in_a_job_it_is_the_machine_that_is_at_fault(project, tmp_path):
    with pytest.raises(ConfigError, match="needs A, which is not set") as caught:
        make_check(project, tmp_path).require_success()
    assert caught.value.exit_code == 2
    with pytest.raises(MachineError, match=r"cannot run this\. .* needs A") as caught:
        make_check(project, tmp_path, SLURM_JOB_ID="7").require_success()
    assert caught.value.exit_code == 69


def test_gpus_that_slurm_has_given_must_be_there(project, tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "probe", lambda _: {"count": 1, "problems": {}})
    found = make_check(project, tmp_path, SLURM_GPUS_ON_NODE="2").problems()
    assert str(found[0]) == (
        "devices: cuda:1 is not there (found: cuda:0 to cuda:0). SLURM has given 2 here."
    )

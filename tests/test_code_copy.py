"""The copy of the code that a run keeps."""

import pytest

from jade.code_copy import CodeCopy


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "code/modules").mkdir(parents=True)
    (tmp_path / "code/external").mkdir()
    (tmp_path / "code/modules/a.py").write_text("A = 1\n")
    (tmp_path / "code/external/b.py").write_text("B = 1\n")
    notes = {
        "modules": ["modules"],
        "arch_impl": "external/b.py",
        "external": {"external/b.py": str(tmp_path / "lib/b.py")},
    }
    return CodeCopy(tmp_path / "code", notes)


def test_changes_name_what_differs_and_what_is_gone(copy, tmp_path):
    assert copy.changes(tmp_path) == ["external/b.py (is gone)", "modules/a.py (is gone)"]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/b.py").write_text("B = 1\n")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/a.py").write_text("A = 2\n")
    assert copy.changes(tmp_path) == ["modules/a.py"]


def test_configuration_is_translated_at_any_depth(copy, tmp_path):
    path = f"{tmp_path}/lib/b.py:B"
    config = {
        "model": {"class": "M", "params": {"parts": [{"class": path}], "lr": 1}},
        "arch_impl": f"{tmp_path}/lib/b.py",
        "modules": [],
    }
    assert copy.translate(config) == {
        "model": {"class": "M", "params": {"parts": [{"class": "external/b.py:B"}], "lr": 1}},
        "arch_impl": "external/b.py",
        "modules": ["modules"],
    }
    assert config["model"]["params"]["parts"] == [{"class": path}]


def test_copy_without_notes_is_used_by_the_names_of_the_configuration(copy):
    bare = CodeCopy(copy.folder)
    translated = bare.translate({"modules": [], "arch_impl": "modules/a.py"})
    assert translated == {"modules": ["modules"], "arch_impl": "modules/a.py"}
    assert bare.translate({"modules": ["gone"]})["modules"] == ["."]

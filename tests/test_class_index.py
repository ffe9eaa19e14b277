import logging
from pathlib import Path

import pytest
import torch

from jade.class_index import ClassIndex, class_names, default_roots
from jade.errors import ComponentError


@pytest.fixture
def index(project):
    def index():
        return ClassIndex([project.root / "modules"])

    return index


def message(index, name):
    with pytest.raises(ComponentError) as caught:
        index.find(name)
    return str(caught.value)


def test_indexing_imports_nothing(project, index):
    project.write("modules/data/side_effect.py", "raise SystemExit\nclass Late: pass\n")

    places = index().places["Late"]

    assert [str(place) for place in places] == ["modules/data/side_effect.py:2"]


def test_classes_in_nested_folders_and_below_conditions_are_found(project, index):  # K4
    project.write(
        "modules/data/a/b/deep.py",
        """
        import sys
        if sys.version_info < (3,):
            class Old: pass
        else:
            class New: pass
        try:
            import nowhere
            class Fast: pass
        except ImportError:
            class Slow: pass
        def make():
            class Hidden: pass
        """,
    )

    found = index()

    assert {"Old", "New", "Fast", "Slow"} <= set(found.places)
    assert "Hidden" not in found.places
    assert found.find("New").__name__ == "New"


def test_class_that_is_defined_twice_in_one_file_is_one_class(project, index):
    project.write("modules/data/double.py", "class Net2: pass\nclass Net2: x = 1\n")

    assert index().find("Net2").x == 1


def test_own_class_goes_before_one_of_a_library(project, index):  # K4
    project.write("modules/nets.py", "class Linear: pass\n")

    assert index().find("Linear").__module__ == "modules.nets"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Linear", "torch.nn"),
        ("Adam", "torch.optim"),
        ("StepLR", "torch.optim.lr_scheduler"),
        ("TensorDataset", "torch.utils.data"),
        ("FakeData", "torchvision.datasets"),
        ("ToTensor", "torchvision.transforms"),
    ],
)
def test_classes_of_libraries_are_found_by_their_bare_name(index, name, module):  # K4
    assert index().find(name).__module__.startswith(module)


def test_dotted_names_lead_into_packages_and_modules(project, index):  # K4
    project.write("modules/nets/__init__.py", "class Inner: pass\n")
    found = index()

    assert found.find("torch.nn.Linear") is torch.nn.Linear
    assert found.find("torchvision.datasets.FakeData").__name__ == "FakeData"
    assert found.find("modules.data.points.Points") is found.find("Points")
    assert found.find("modules.nets.Inner").__name__ == "Inner"


def test_file_and_class_lead_anywhere(project, index, tmp_path, monkeypatch):  # K4
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("class Far: pass\n")
    found = index()
    monkeypatch.chdir("/")

    assert found.find(f"{elsewhere}:Far").__name__ == "Far"
    # From any working directory, a relative path is found beside the folder of modules.
    assert found.find("modules/data/points.py:Points") is found.find("Points")


def test_name_in_two_files_lists_both(project, index):  # K4
    project.write("modules/data/copy_of_points.py", "class Points: pass\n")

    assert message(index(), "Points") == (
        "The class 'Points' is defined 2 times: modules/data/copy_of_points.py:1, "
        "modules/data/points.py:6. Write which one: modules/data/copy_of_points.py:Points."
    )


def test_missing_class_suggests_own_classes_with_their_files(index):  # T6
    text = message(index(), "LinTrainer")

    assert "There is no class 'LinTrainer' in modules, torch or torchvision." in text
    assert "Did you mean 'LineTrainer'?" in text
    assert "LineTrainer (modules/models/line.py)" in text


def test_missing_class_suggests_classes_of_libraries(index):
    assert "Did you mean 'MNIST' of torchvision.datasets?" in message(index(), "MINST")


def test_without_a_folder_of_modules_the_flag_is_named():
    assert "Give the folder of your classes with --modules DIR." in message(ClassIndex([]), "Xyz")


def test_class_in_a_broken_file_says_so(project, index):
    project.write("modules/models/broken.py", "class Mine(:\n    pass\n")

    text = message(index(), "Mine")

    assert text.startswith("The class 'Mine' stands in a file that Python cannot read: ")
    assert "modules/models/broken.py:1: invalid syntax" in text


def test_unrelated_broken_files_are_only_a_warning(project, index, caplog):  # K4
    project.write("modules/models/broken.py", "def x(:\n")
    (project.root / "modules/models/binary.py").write_bytes(b"\xff\xfe\0")
    (project.root / "modules/models/dangling.py").symlink_to("nowhere.py")
    found = index()

    assert found.find("LineTrainer").__name__ == "LineTrainer"
    with caplog.at_level(logging.WARNING):
        found.warn_of_broken()

    assert len(caplog.messages) == 3
    assert "Left out, no class of it is used: modules/models/broken.py:1" in caplog.text
    assert "Not read: modules/models/broken.py:1" in message(found, "Xyz")


def test_hidden_files_and_caches_are_left_out(project, index):
    project.write("modules/.hidden/a.py", "class A1: pass\n")
    project.write("modules/.#lock.py", "class A2: pass\n")
    project.write("modules/__pycache__/b.py", "class A3: pass\n")

    assert not {"A1", "A2", "A3"} & set(index().places)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("torch.nn.Liner", "torch.nn has no class 'Liner'. Did you mean 'Linear'?"),
        ("nn.Linear", "there is no module 'nn'. Did you mean 'torch.nn.Linear'?"),
        ("nowhere.Xyz", "there is no module 'nowhere'."),
        ("..Linear", "is not the name of a class, such as torch.nn.Linear"),
        ("modules.nowhere.Points", "there is no module 'modules.nowhere'"),
        ("torch.nn.functional", "torch.nn has no class 'functional'"),
        ("modules/data/points.py:Pints", "has no class 'Pints'. Did you mean 'Points'?"),
        ("modules/data/pints.py:Points", "does not exist or is not a file"),
    ],
)
def test_wrong_dotted_or_file_names_tell_what_there_is(index, name, text):
    assert text in message(index(), name)


def test_used_files_are_remembered_once(project, index):
    found = index()

    found.find("Points")
    found.find("Broken")
    found.find("LineTrainer")

    assert [path.name for path in found.used] == ["points.py", "line.py"]


def test_default_root_is_beside_us_or_above_the_given_files(project, tmp_path, monkeypatch):  # K4
    assert default_roots([]) == [project.root / "modules"]
    monkeypatch.chdir(tmp_path)
    assert default_roots([None]) == []
    assert default_roots([str(project.root / "conf" / "model.yml")]) == [project.root / "modules"]


def test_class_names_are_those_a_module_defines_itself(project, index):
    found = index()
    found.find("Points")
    import modules.data.points

    assert class_names(modules.data.points) == ["Points", "Broken"]


def test_place_is_shown_relative_to_the_working_directory(index):
    (place,) = index().places["Points"]

    assert place.path.is_absolute()
    assert str(place) == f"{Path('modules/data/points.py')}:6"


def test_remembered_classes_are_looked_for_once(project):
    from jade.class_index import RememberedClasses

    index = RememberedClasses([project.root / "modules"])
    first = index.find("Points")
    project.write("modules/data/points.py", "class Points: pass\n")
    assert index.find("Points") is first
    # Whoever looks anew finds the edited class.
    assert ClassIndex([project.root / "modules"]).find("Points") is not first

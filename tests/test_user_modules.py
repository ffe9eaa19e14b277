import multiprocessing
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest

from jade.class_index import ClassIndex
from jade.errors import ComponentError
from jade.signals import SignalWatch
from jade.user_modules import imported_below, load_file, shown

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def import_state(monkeypatch):
    """Let no test see what another one imported or put on the path."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if "site-packages" not in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_file_below_a_root_is_part_of_a_package(write, tmp_path):
    write("mods/nets/blocks.py", "SIZE = 3\n")
    path = write(
        "mods/nets/deep/net.py",
        "from mods.nets.blocks import SIZE\nfrom ..blocks import SIZE as S\n",
    )

    module = load_file(path, [tmp_path / "mods"])

    assert module.__name__ == "mods.nets.deep.net"
    assert module.SIZE == module.S == 3
    assert load_file(path, [tmp_path / "mods"]) is module


def test_file_elsewhere_is_imported_by_its_own_name(write):
    write("sibling.py", "SIZE = 3\n")
    path = write("my-net.py", "from sibling import SIZE\n")

    module = load_file(path, [])

    assert module.__name__ == "my-net"
    assert module.SIZE == 3
    assert load_file(path, []) is module


@pytest.mark.parametrize("name", ["json.py", "v1.2.py", "torch.py"])
def test_file_whose_name_is_taken_gets_another_one(write, name):
    path = write(name, "SIZE = 3\n")

    module = load_file(path, [])

    assert module.SIZE == 3
    assert module.__name__.startswith("jade_file_")
    assert load_file(path, []) is module
    import json

    import torch

    assert json.dumps({}) == "{}"
    assert torch.__version__


@pytest.mark.parametrize("folder", ["code", "torch", "v1.2"])
def test_root_whose_name_is_taken_disturbs_nobody(write, tmp_path, folder):
    path = write(f"{folder}/mine.py", "SIZE = 3\n")

    module = load_file(path, [tmp_path / folder])

    assert module.SIZE == 3
    import code

    import torch

    assert code.InteractiveConsole
    assert torch.__version__


def test_files_that_were_imported_are_those_of_the_user_only(write, tmp_path, monkeypatch):
    write("env/lib/site-packages/installed_helper.py", "")
    helper = write("imported_helper.py", "import installed_helper\n")
    monkeypatch.syspath_prepend(str(tmp_path / "env/lib/site-packages"))
    load_file(helper, [])
    main = write("main.py", "")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(main), raising=False)
    monkeypatch.setitem(sys.modules, "__mp_main__", sys.modules["__main__"])

    assert imported_below([tmp_path]) == {helper}
    # Nothing of JADE, of its dependencies, or of Python.
    assert imported_below([ROOT / "jade", Path(os.__file__).parent]) == set()


def test_package_file_is_imported_as_its_package(write, tmp_path):
    path = write("mods2/nets/__init__.py", "class Net: pass\n")

    assert load_file(path, [tmp_path / "mods2"]).__name__ == "mods2.nets"


def test_edited_file_is_imported_anew(write, tmp_path, monkeypatch):  # K4
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write("mods3/net.py", "SIZE = 3\n")
    second = 1_700_000_000 * 10**9
    os.utime(path, ns=(second, second))
    assert load_file(path, [tmp_path / "mods3"]).SIZE == 3

    # To Python, whose cache knows the second and the size, it is still the same file.
    path.write_text("SIZE = 4\n")
    os.utime(path, ns=(second, second + 1000))

    assert load_file(path, [tmp_path / "mods3"]).SIZE == 4


def test_edited_file_that_another_one_imports_is_imported_anew(write, tmp_path):  # K4
    helper = write("mods4/helper.py", "SIZE = 3\n")
    path = write("mods4/net.py", "from mods4 import helper\nSIZE = helper.SIZE\n")
    assert load_file(path, [tmp_path / "mods4"]).SIZE == 3

    helper.write_text("SIZE = 4\n")
    ClassIndex([tmp_path / "mods4"])

    assert load_file(path, [tmp_path / "mods4"]).SIZE == 4


def test_edited_or_removed_file_elsewhere_is_noticed(write):
    helper = write("helper_alone.py", "SIZE = 3\n")
    path = write("alone.py", "from helper_alone import SIZE\n")
    assert load_file(path, []).SIZE == 3

    helper.write_text("SIZE = 4\n")
    assert load_file(path, []).SIZE == 4

    path.unlink()
    with pytest.raises(ComponentError, match="does not exist"):
        load_file(path, [])


def test_two_projects_with_equal_names_do_not_mix(write, tmp_path):  # K4, C14
    roots = []
    for project in ("one", "two"):
        write(f"{project}/modules/helper.py", f"NAME = {project!r}\n")
        write(f"{project}/modules/net.py", "from modules.helper import NAME\n")
        roots.append(tmp_path / project / "modules")
    one, two = roots

    names = [load_file(root / "net.py", [root]).NAME for root in (one, two, one, two)]

    assert names == ["one", "two", "one", "two"]
    assert str(one.parent) not in sys.path


def test_package_that_the_user_imported_is_kept(write, tmp_path, monkeypatch):
    path = write("mods5/net.py", "class Net: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import mods5.net

    module = load_file(path, [tmp_path / "mods5"])

    assert module.Net is mods5.net.Net


def test_files_of_the_project_go_before_others_on_the_path(write, tmp_path, monkeypatch):
    write("elsewhere/mods11/helper.py", "NAME = 'elsewhere'\n")
    write("project/mods11/helper.py", "NAME = 'project'\n")
    path = write("project/mods11/net.py", "from mods11.helper import NAME\n")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")

    assert load_file(path, [tmp_path / "project" / "mods11"]).NAME == "project"


def test_two_roots_are_importable_together(write, tmp_path):
    one = write("a/mods6/one.py", "import mods7.two\n")
    write("b/mods7/two.py", "SIZE = 3\n")

    module = load_file(one, [tmp_path / "a/mods6", tmp_path / "b/mods7"])

    assert module.mods7.two.SIZE == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Net(:\n", r"broken\.py:1: invalid syntax"),
        ("import nowhere_to_be_found\n", r"cannot be imported: ModuleNotFoundError: No module"),
        ("x = 1\ny = 1 / 0\n", r"ZeroDivisionError: division by zero \(.*broken\.py:2\)"),
        ("raise RuntimeError('mine')\n", r"RuntimeError: mine \(.*broken\.py:1\)"),
    ],
)
def test_file_that_cannot_be_imported_is_named_with_its_line(write, tmp_path, text, message):
    path = write("mods8/broken.py", text)

    for roots in ([tmp_path / "mods8"], []):
        with pytest.raises(ComponentError, match=message):
            load_file(path, roots)
    assert "broken" not in sys.modules


def test_syntax_error_in_an_imported_file_names_that_file(write, tmp_path):
    write("mods9/helper.py", "x = = 1\n")
    path = write("mods9/net.py", "from mods9 import helper\n")

    with pytest.raises(ComponentError, match=r"mods9/helper\.py:1"):
        load_file(path, [tmp_path / "mods9"])


def test_interrupted_import_leaves_nothing_half_done(write):
    path = write("slow.py", "raise KeyboardInterrupt\n")

    with pytest.raises(KeyboardInterrupt):
        load_file(path, [])

    assert "slow" not in sys.modules


def test_file_that_is_no_python_is_refused(write):
    with pytest.raises(ComponentError, match="is not a Python file"):
        load_file(write("net.txt", "x = 1\n"), [])


def test_missing_file_suggests_its_neighbours(write, tmp_path):
    write("nets.py", "")

    with pytest.raises(ComponentError, match=r"net\.py does not exist .* Did you mean 'nets\.py'"):
        load_file(tmp_path / "net.py", [])
    with pytest.raises(ComponentError, match=r"no/net\.py does not exist or is not a file\.$"):
        load_file(tmp_path / "no" / "net.py", [])


def test_paths_are_shown_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert shown(tmp_path / "a" / "b.py") == "a/b.py"
    assert shown(Path("/elsewhere/b.py")) == "/elsewhere/b.py"


DATASET = "class Points:\n    def __len__(self):\n        return 4\n    def __getitem__(self, i):\n        return float(i)\n"


def unpickle(data):
    return len(pickle.loads(data))


@pytest.mark.parametrize(
    ("name", "in_root"), [("mods10/data/my-points.py", True), ("points.py", False)]
)
def test_objects_reach_processes_that_are_spawned(
    write, tmp_path, monkeypatch, name, in_root
):  # K4
    path = write(name, DATASET)
    module = load_file(path, [tmp_path / "mods10"] if in_root else [])
    data = pickle.dumps(module.Points())
    monkeypatch.chdir("/")

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(unpickle, [data]) == 4


SPAWNED_LOADER = """
import sys
from pathlib import Path
from torch.utils.data import DataLoader
from jade.class_index import ClassIndex

if __name__ == "__main__":
    dataset = ClassIndex([Path(sys.argv[1])]).find("Points")()
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="spawn")
    print([batch.tolist() for batch in loader])
"""


@pytest.mark.slow
def test_loader_with_spawned_workers_delivers_batches(write, tmp_path):  # K4
    write("project/modules/data/deep/points.py", DATASET)
    script = write("script.py", SPAWNED_LOADER)

    result = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "project" / "modules")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert result.stdout == "[[0.0, 1.0], [2.0, 3.0]]\n", result.stderr


TORCHVISION_FIRST = """
import sys
from pathlib import Path
from jade.user_modules import load_file

module = load_file(Path(sys.argv[1]), [])
print(module.MNIST.__name__)
"""


@pytest.mark.slow
def test_file_that_imports_torchvision_works_beside_any_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TORCHVISION_FIRST)

    result = subprocess.run(
        [sys.executable, str(script), str(ROOT / "modules/data/MNIST.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert result.stdout == "MNIST\n", result.stderr


def test_file_that_needs_operators_of_torchvision_is_imported_again(write):
    # The first import fails as torchvision's does beside a torch that it was not built for.
    path = write(
        "vision.py",
        "import sys\n"
        "if not hasattr(sys, 'tried_once'):\n"
        "    sys.tried_once = True\n"
        "    raise RuntimeError('operator torchvision::nms does not exist')\n",
    )
    pytest.importorskip("jade.torch_startup").import_torchvision()

    try:
        assert load_file(path, []).__name__ == "vision"
    finally:
        del sys.tried_once


def test_file_that_was_imported_while_another_one_was_is_found(tmp_path, monkeypatch):
    outer, inner = types.ModuleType("outer_of_two"), types.ModuleType("inner_of_two")
    outer.__file__, inner.__file__ = str(tmp_path / "outer.py"), str(tmp_path / "inner.py")
    outer.__spec__ = types.SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "outer_of_two", outer)
    assert imported_below([tmp_path]) == {tmp_path / "outer.py"}

    monkeypatch.setitem(sys.modules, "inner_of_two", inner)
    # As Python does once it is done with a module.
    monkeypatch.delitem(sys.modules, "outer_of_two")
    monkeypatch.setitem(sys.modules, "outer_of_two", outer)
    outer.__spec__._initializing = False

    found = imported_below([tmp_path])
    assert found == {tmp_path / "outer.py", tmp_path / "inner.py"}


@pytest.mark.parametrize("line", ["sys.exit(3)", "argparse.ArgumentParser().parse_args(['-x'])"])
def test_file_that_ends_the_program_is_explained(write, line, capsys):
    path = write("script.py", f"import argparse, sys\n\n{line}\n")

    with pytest.raises(ComponentError, match=r"it ends the program \(.*script.py:3\)"):
        load_file(path, [])


def test_signal_during_an_import_is_no_mistake_of_the_file(write, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x"])
    code = (
        "import os, signal\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "for _ in range(1000): signal.getsignal(signal.SIGTERM)\n"
    )
    path = write("slow.py", code)

    raised = []

    def load():
        try:
            load_file(path, [])
        except BaseException as error:
            raised.append(type(error))

    with pytest.raises(SystemExit), SignalWatch.for_run({}):
        load()

    assert raised == [SystemExit]

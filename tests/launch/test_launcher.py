"""Programs that are forked from a warm server are as good as those that Python has just started."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from jade.errors import JadeError
from jade.launch.launcher import Launcher
from jade.launch.program import FILE, LOST, MODULE, make_program

TIMEOUT_S = 60


class Bench:
    """A launcher, and what becomes of its programs."""

    def __init__(self, folder, modules=(), environ=None):
        self.folder = folder
        self.ends = queue.SimpleQueue()
        self.notes = []
        self.launcher = Launcher(folder / "server.log", modules, environ=environ)
        self.launcher.listen(lambda *end: self.ends.put(end), self.notes.append)

    def program(self, text, *arguments, environ=None):
        (self.folder / "program.py").write_text(textwrap.dedent(text))
        command = [sys.executable, "program.py", *arguments]
        return make_program(command, {**os.environ, **(environ or {})}, str(self.folder))

    def start(self, program, key="key"):
        with (self.folder / f"{key}.txt").open("wb") as output:
            self.launcher.start(key, program, output.fileno())

    def run(self, program):
        """Run a program to its end; return its exit code and its output."""
        self.start(program)
        _, code = self.ends.get(timeout=TIMEOUT_S)
        return code, self.output()

    def output(self, key="key"):
        return (self.folder / f"{key}.txt").read_text()

    def wait_for(self, text, key="key"):
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.output(key):
            assert time.monotonic() < deadline, self.output(key)
            time.sleep(0.01)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.launcher.close()


def as_python_does(bench, text, *arguments, environ=None):
    """Run a program both ways, and return what each gives."""
    program = bench.program(text, *arguments, environ=environ)
    assert program.kind == FILE
    fresh = subprocess.run(
        program.command,
        env=dict(program.environ),
        cwd=bench.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return bench.run(program), (fresh.returncode, fresh.stdout)


@pytest.mark.parametrize(
    "text",
    [
        "import sys; print(sys.argv, __name__, __file__, sys.path[0])",
        "import os, sys; print(os.getcwd(), os.environ['GIVEN'], 'PWD' in os.environ)",
        "import sys; print(repr(sys.stdin.read()))",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('a reason')",
        "import sys; sys.exit()",
        "raise SystemExit(300)",
        "def f():\n    raise ValueError('no')\nf()",
        "x = (",
        "import atexit; atexit.register(print, 'bye'); print('hello')",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
        "import signal; print([signal.getsignal(n) for n in (2, 10, 12, 13, 15, 17)])",
        "import sys; sys.modules['__main__'].x = 1; print(x)",
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "import multiprocessing as m\nif __name__ == '__main__':\n"
        "    p = m.get_context('spawn').Process(target=print, args=('other',))\n"
        "    p.start(); p.join(); print(p.exitcode)",
    ],
)
def test_a_forked_program_does_what_python_does(bench, text):
    forked, fresh = as_python_does(bench, text, "a", "--b=c d", environ={"GIVEN": "x y"})

    assert forked == fresh


def test_what_a_program_has_written_is_there_although_it_never_closed_the_file(bench):
    bench.run(bench.program("f = open('left', 'w'); f.write('kept')"))

    assert (bench.folder / "left").read_text() == "kept"


def test_forked_programs_have_random_numbers_and_process_groups_of_their_own(tmp_path):
    bench = Bench(tmp_path, ("numpy.random", "torch"))
    text = """
        import os, random, numpy, torch
        print(random.random(), numpy.random.rand(), torch.rand(1).item(), os.getpgrp())
        """
    try:
        (_, one), (_, two) = bench.run(bench.program(text)), bench.run(bench.program(text))
    finally:
        bench.launcher.close()

    assert all(a != b for a, b in zip(one.split(), two.split(), strict=True))


def test_forked_programs_have_temporary_folders_of_their_own(tmp_path, monkeypatch):
    """wandb makes folders when it is imported; the first trial to end must not remove them."""
    (tmp_path / "library.py").write_text(
        "import tempfile\nFOLDER = tempfile.TemporaryDirectory()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    text = "import library, os; print(library.FOLDER.name, os.path.isdir(library.FOLDER.name))"
    bench = Bench(tmp_path, ("library",))
    try:
        (_, one), (_, two) = bench.run(bench.program(text)), bench.run(bench.program(text))
        left = [path for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"]
    finally:
        bench.launcher.close()

    assert (one.split()[1], two.split()[1]) == ("True", "True")
    assert len({one.split()[0], two.split()[0], *map(str, left)}) == 3
    assert not any(path.exists() for path in left)


def test_torch_computes_in_a_forked_program_as_if_nothing_had_been_computed_before(tmp_path):
    text = """
        import sys, torch, torch.optim
        print(torch.get_num_threads(), torch.is_grad_enabled(), torch.cuda.is_initialized())
        torch.manual_seed(0)
        network = torch.nn.Linear(300, 300)
        optimizer = torch.optim.Adam(network.parameters())
        network(torch.rand(300, 300)).square().mean().backward()
        optimizer.step()
        print(network.weight.sum().item(), torch.rand(2))
        """
    bench = Bench(tmp_path, ("torch",))
    try:
        forked, fresh = as_python_does(bench, text, environ={"OMP_NUM_THREADS": "2"})
    finally:
        bench.launcher.close()

    assert forked[0] == 0
    assert forked == fresh


def test_threads_of_a_program_are_those_of_its_environment(tmp_path):
    bench = Bench(tmp_path, ("torch",))
    text = "import torch; print(torch.get_num_threads())"
    try:
        for number in ("1", "2"):
            program = bench.program(text, environ={"OMP_NUM_THREADS": number})
            assert bench.run(program) == (0, f"{number}\n")
    finally:
        bench.launcher.close()


def test_a_module_and_another_program_can_be_started(bench):
    environ, folder = dict(os.environ), str(bench.folder)
    module = make_program([sys.executable, "-m", "timeit", "-n1", "pass"], environ, folder)
    other = make_program(["sh", "-c", "echo $0 $PWD; exit 4"], environ, folder)

    assert (module.kind, other.kind) == (MODULE, None)
    assert "1 loop" in bench.run(module)[1]
    assert bench.run(other) == (4, f"sh {bench.folder}\n")


def test_a_program_that_does_not_exist_says_so(bench):
    program = make_program(["no-such-program"], dict(os.environ), str(bench.folder))

    assert bench.run(program) == (127, "no-such-program: No such file or directory\n")


def test_a_signal_reaches_its_program_only(bench):
    bench.start(bench.program("print('up'); import time; time.sleep(60)"), "one")
    bench.wait_for("up", "one")
    bench.start(bench.program("print('up'); import time; time.sleep(60)"), "two")
    bench.wait_for("up", "two")

    bench.launcher.signal("one", signal.SIGTERM)

    assert bench.ends.get(timeout=TIMEOUT_S) == ("one", -signal.SIGTERM)
    assert bench.ends.empty()
    bench.launcher.signal("two", signal.SIGKILL)
    assert bench.ends.get(timeout=TIMEOUT_S) == ("two", -signal.SIGKILL)


OWNER = """
    import os, sys, time
    from pathlib import Path
    from jade.launch.launcher import Launcher
    from jade.launch.program import make_program

    launcher = Launcher(Path("server.log"), ())
    program = make_program([sys.executable, "trial.py"], dict(os.environ), os.getcwd())
    launcher.start("a", program, os.open("trial.txt", os.O_CREAT | os.O_WRONLY))
    print(launcher._current._process.pid, flush=True)
    time.sleep(60)
"""
TRIAL = """
    import os, signal, time

    def stop(*_):
        open("stopped", "w").close()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    open("up", "w").close()
    time.sleep(60)
"""


@pytest.mark.parametrize("victim", ["owner", "server"])
def test_programs_are_asked_to_stop_when_whoever_started_them_is_killed(tmp_path, victim):
    (tmp_path / "owner.py").write_text(textwrap.dedent(OWNER))
    (tmp_path / "trial.py").write_text(textwrap.dedent(TRIAL))
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "owner.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as owner:
        server = int(owner.stdout.readline())
        wait_for_file(tmp_path / "up")

        os.kill(owner.pid if victim == "owner" else server, signal.SIGKILL)

        wait_for_file(tmp_path / "stopped")
        owner.kill()


def wait_for_file(path):
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


def test_programs_run_on_when_the_server_is_killed_before_they_start(bench):
    bench.launcher._current._process.kill()

    assert bench.run(bench.program("print('all the same')")) == (0, "all the same\n")


def test_a_server_that_dies_of_its_imports_imports_nothing_the_next_time(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text("import os; os._exit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    bench = Bench(tmp_path, ("deadly",))
    try:
        assert bench.run(bench.program("print('all the same')")) == (0, "all the same\n")
    finally:
        bench.launcher.close()

    assert len(bench.notes) == 1


def test_a_server_that_cannot_start_is_not_started_for_ever(tmp_path):
    bench = Bench(tmp_path, environ={"PYTHONHOME": str(tmp_path / "nothing")})
    program = bench.program("print('never')")
    try:
        # Unless it is noticed before that.
        with contextlib.suppress(JadeError):
            bench.start(program)
            assert bench.ends.get(timeout=TIMEOUT_S) == ("key", LOST)
        with pytest.raises(JadeError, match=r"(?s)server\.log ends with:\n.*encodings"):
            bench.start(program)
    finally:
        bench.launcher.close()


def test_a_program_whose_server_was_killed_counts_as_lost(bench):
    bench.start(bench.program("print('up'); import time; time.sleep(60)"))
    bench.wait_for("up")

    bench.launcher._current._process.kill()

    assert bench.ends.get(timeout=TIMEOUT_S) == ("key", LOST)


def append(path, text):
    path.write_text(path.read_text() + text)


def test_files_of_a_user_are_imported_once_before_the_first_program(project, bench, arguments):
    append(project.root / "modules/models/line.py", "\nprint('imported')\n")
    bench.launcher.close()
    warm = Bench(project.root, ("torch", "jade.run", "jade.commands.train"))
    command = [sys.executable, "-m", "jade", *arguments]
    try:
        for key in ("one", "two"):
            program = make_program(command, dict(os.environ), str(project.root))
            warm.launcher.prepare(program)
            warm.start(program, key)
            assert warm.ends.get(timeout=TIMEOUT_S) == (key, 0), warm.output(key)
    finally:
        warm.launcher.close()

    assert (project.root / "server.log").read_text() == "imported\n"
    assert "imported" not in warm.output("one") + warm.output("two")
    assert warm.notes == []


STARTS_A_THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""


def test_files_that_start_threads_are_left_to_the_programs(project, bench, arguments):
    append(project.root / "modules/models/line.py", STARTS_A_THREAD)
    bench.launcher.close()
    warm = Bench(project.root, ("jade.commands.train",))
    program = make_program(
        [sys.executable, "-m", "jade", *arguments], dict(os.environ), str(project.root)
    )
    try:
        warm.launcher.prepare(program)
        code, output = warm.run(program)
    finally:
        warm.launcher.close()

    assert (code, "finished" in output) == (0, True), output
    assert ["start threads" in note for note in warm.notes] == [True]


def test_a_signal_is_not_lost_with_the_server_that_it_was_sent_to(project, bench, arguments):
    append(project.root / "modules/models/line.py", STARTS_A_THREAD)
    bench.launcher.close()
    warm = Bench(project.root, ("jade.commands.train",))
    training = [sys.executable, "-m", "jade", *arguments]
    try:
        warm.launcher.prepare(make_program(training, dict(os.environ), str(project.root)))
        warm.start(warm.program("import time; time.sleep(10)"))
        warm.launcher.signal("key", signal.SIGTERM)
        assert warm.ends.get(timeout=TIMEOUT_S) == ("key", -signal.SIGTERM)
    finally:
        warm.launcher.close()


def test_files_that_cannot_be_imported_ahead_are_named(bench):
    training = [sys.executable, "-m", "jade", "train", "--model_conf=nowhere.yml"]
    bench.launcher.prepare(make_program(training, dict(os.environ), str(bench.folder)))
    assert bench.notes == []
    bench.launcher.close()
    warm = Bench(bench.folder, ("jade.commands.train",))
    try:
        warm.launcher.prepare(make_program(training, dict(os.environ), str(bench.folder)))
        assert warm.run(warm.program("print('all the same')"))[0] == 0
    finally:
        warm.launcher.close()
    (note,) = warm.notes
    assert note.startswith("Each trial imports your files itself: ConfigError: ")
    assert "nowhere.yml" in note

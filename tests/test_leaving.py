import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading, time
from jade.leaving import end_program

class Slow:
    def __del__(self):
        print("taken apart", flush=True)

slow = Slow()
slow.itself = slow
file = open("left open", "w")

def work():
    time.sleep(0.1)
    print("thread done")

def main():
    atexit.register(print, "asked for")
    threading.Thread(target=work).start()
    file.write("kept")
    print("main done")
    {end}

if __name__ == "__main__":
    end_program(main)
"""


@pytest.fixture
def run(tmp_path):
    def run_program(*arguments, end="return 7", program=PROGRAM):
        (tmp_path / "program.py").write_text(program.replace("{end}", end))
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run_program


@pytest.mark.parametrize("arguments", [("program.py",), ("-m", "program")])
def test_program_ends_with_its_code_and_nothing_is_taken_apart(run, tmp_path, arguments):
    ended = run(*arguments)

    assert ended.returncode == 7
    assert ended.stdout.splitlines() == ["main done", "thread done", "asked for"]
    assert ended.stderr == ""
    assert (tmp_path / "left open").read_text() == "kept"


def test_exit_that_the_program_asks_for_ends_it_as_well(run):
    ended = run("program.py", end="sys.exit(75)")

    assert ended.returncode == 75
    assert "taken apart" not in ended.stdout


def test_text_as_exit_code_is_left_to_python(run):
    ended = run("program.py", end="sys.exit('nothing to do')")

    assert ended.returncode == 1
    assert ended.stderr == "nothing to do\n"


def test_profiler_that_runs_the_program_gets_to_its_end(run):
    ended = run("-m", "cProfile", "program.py")

    assert "function calls" in ended.stdout
    assert "taken apart" in ended.stdout


def test_program_that_runs_another_one_goes_on_after_it(run, tmp_path):
    runner = "import runpy\ntry:\n    runpy.run_path('program.py', run_name='__main__')\n"
    (tmp_path / "runner.py").write_text(f"{runner}except SystemExit as e:\n    print(e.code)\n")

    ended = run("runner.py")

    assert ended.returncode == 0
    assert "7" in ended.stdout.splitlines()

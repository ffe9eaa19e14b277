import io
import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from rich.console import Console

from jade.errors import ConfigError
from jade.progress import ConsoleHandler, ProgressLine, Snapshot, open_console
from jade.progress.pace import Pace
from jade.progress.status import Status, render_bar, render_plain

ROOT = Path(__file__).parents[1]
CONTROL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+")


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch):
    for name in ("JADE_PROGRESS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def snapshot(iteration=0, *, fraction=None, phase="training", losses=None, **others):
    return Snapshot(iteration, others.pop("epoch", 0), fraction, losses or {}, phase, **others)


def pace_of(*samples):
    pace = Pace()
    for time_s, iteration, phase, fraction in samples:
        pace.add(time_s, snapshot(iteration, fraction=fraction, phase=phase))
    return pace


def terminal_console(width=100, **options):
    return Console(force_terminal=True, file=io.StringIO(), width=width, **options)


def log_console():
    return Console(file=io.StringIO(), width=80)


def screen(output):
    """Return the lines that a terminal shows after the output."""
    lines, row, column = [""], 0, 0
    for token in CONTROL.findall(output):
        if token == "\r":
            column = 0
        elif token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\x1b[2K":
            lines[row] = ""
        elif token.endswith("A") and token.startswith("\x1b"):
            row -= int(token[2:-1] or 1)
        elif not token.startswith("\x1b"):
            line = lines[row].ljust(column)
            lines[row] = line[:column] + token + line[column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in lines]


def progress_threads():
    return [thread for thread in threading.enumerate() if thread.name == "jade-progress"]


# Pace


def test_rate_of_steady_training_is_exact():
    pace = pace_of(*((0.5 * n, 20 * n, "training", None) for n in range(8)))

    assert pace.rate == 40.0


def test_rate_leaves_evaluations_out():
    pace = pace_of(
        (0, 0, "training", None),
        (1, 100, "training", None),
        (2, 200, "evaluating FID", None),
        (50, 200, "evaluating FID", None),
        (51, 200, "training", None),
        (52, 300, "training", None),
    )

    assert pace.rate == 100.0


def test_rate_forgets_the_warm_up_interval():
    pace = pace_of((0, 0, "training", None), (30, 1, "training", None), (31, 11, "training", None))

    assert pace.rate == 10.0


def test_rate_follows_a_change_of_speed_within_the_window():
    slow = [(n, n, "training", None) for n in range(100)]
    fast = [(100 + n, 100 + 50 * n, "training", None) for n in range(12)]

    assert pace_of(*slow, *fast).rate == 50.0


def test_rate_of_iterations_longer_than_the_window_is_exact():
    # They take 12 and 28 seconds by turns.
    times = [(n, n // 40 * 2 + (n % 40 >= 12), "training", None) for n in range(401)]

    assert pace_of(*times).rate == pytest.approx(1 / 20)


def test_rate_is_unknown_before_the_first_step():
    assert pace_of((0, 0, "training", None), (9, 0, "training", None)).rate is None


def test_time_left_counts_the_evaluations_to_come():
    pace = pace_of(
        (0, 0, "evaluating", 0.0),
        (20, 0, "training", 0.0),
        (21, 100, "training", 0.1),
        (22, 200, "training", 0.2),
        (25, 200, "evaluating", 0.2),
        (27, 300, "training", 0.3),
    )

    # From 10 % to 30 % took 6 s, so the other 70 % take 21.
    assert pace.left_s == pytest.approx(21.0)


def test_time_left_of_endless_training_is_unknown():
    assert pace_of(*((n, n, "training", None) for n in range(5))).left_s is None


def test_time_left_after_resume_ignores_the_jump():
    pace = pace_of((0, 0, "training", 0.0), (1, 5000, "training", 0.5), (2, 5100, "training", 0.51))

    assert pace.left_s == pytest.approx(49.0)


# Rendering


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status("vae", 3.0), "vae: starting, 0:03"),
        (
            Status(
                "vae",
                83.0,
                snapshot(
                    1234,
                    fraction=0.29,
                    epoch=3,
                    total_epochs=10,
                    losses={"loss": 0.123456, "kl": 12.0},
                ),
                567.4,
                3723.0,
            ),
            "vae: 29%, epoch 3/10, it 1,234, 567 it/s, 1:23 (1:02:03 left), loss 0.1235, kl 12",
        ),
        (
            Status("gan", 200_000.0, snapshot(7, epoch=2, phase="writing checkpoint"), 0.25),
            "gan: epoch 2, it 7, 4 s/it, 2d 7h, writing checkpoint",
        ),
        (
            Status("a\nb\x1b[2J", 0.0, snapshot(losses={"x\ty": float("nan")})),
            "a b [2J: epoch 0, it 0, 0:00, x y nan",
        ),
    ],
)
def test_plain_line_says_what_is_known(status, text):
    assert render_plain(status) == text


@pytest.mark.parametrize(("fraction", "text"), [(0.999, "99%"), (1.0, "100%"), (1.2, "100%")])
def test_percentage_is_full_only_when_training_is_done(fraction, text):
    assert f" {text}," in render_plain(Status("t", 0.0, snapshot(fraction=fraction)))


def test_bar_of_endless_training_has_no_percentage_and_no_bar():
    line = "".join(text for text, _ in render_bar(Status("t", 9.0, snapshot(5)), 100))

    assert line == "t epoch 0  it 5  0:09"


def test_bar_is_filled_to_the_fraction():
    line = "".join(text for text, _ in render_bar(Status("t", 0, snapshot(fraction=0.5)), 160))

    assert line.startswith("t " + "━" * 10 + "─" * 10 + " 50%  epoch")


def test_bar_without_unicode_is_ascii():
    status = Status("t" * 50, 0, snapshot(fraction=0.5, losses={"a": 1.0, "b" * 90: 2.0}))

    assert "".join(text for text, _ in render_bar(status, 100, ascii_only=True)).isascii()


@pytest.mark.parametrize("width", range(20, 220, 7))
def test_line_with_many_losses_is_cut_to_the_width(width):
    losses = {f"loss_{n}": 1.23456789 * 10**n for n in range(30)}
    status = Status("a_long_title" * 3, 83.0, snapshot(1234, fraction=0.3, losses=losses), 9.5, 60)

    bar = "".join(text for text, _ in render_bar(status, width))
    plain = render_plain(status, width)

    assert len(bar) <= width
    assert bar.endswith(("…", "left)"))
    assert len(plain) <= width
    assert plain.endswith(("...", "left)"))


def test_losses_that_fit_exactly_are_all_shown():
    status = Status("t", 0.0, snapshot(losses={"a": 1.0, "b": 2.0}))
    text = "t: epoch 0, it 0, 0:00, a 1, b 2"

    assert render_plain(status, len(text)) == text
    assert render_plain(status, len(text) - 1) == "t: epoch 0, it 0, 0:00, ..."


# Plain lines


def test_plain_lines_come_ever_less_often():
    clock, console = Clock(), log_console()

    with ProgressLine(lambda: snapshot(1), title="t", console=console, clock=clock) as line:
        for second in range(1, 201):
            clock.now = 100.0 + second
            line.refresh()

    times = re.findall(r", (\d+:\d\d)\n", console.file.getvalue())
    assert times == ["0:05", "0:15", "0:35", "1:05", "2:05", "3:05", "3:20"]


def test_plain_output_has_no_control_characters():
    console = log_console()

    with ProgressLine(lambda: snapshot(7, fraction=0.7), title="t", console=console) as line:
        line.note("saved [bold]best[/bold] " + "x" * 200)

    written = console.file.getvalue()
    assert written.replace("\n", "").isprintable()
    assert written.splitlines() == [
        "saved [bold]best[/bold] " + "x" * 200,
        "t: 70%, epoch 0, it 7, 0:00",
    ]


def test_last_plain_line_shows_the_state_at_the_end():
    console, state = log_console(), {"iteration": 0}

    with ProgressLine(lambda: snapshot(state["iteration"]), title="t", console=console):
        state["iteration"] = 4321

    assert "it 4,321" in console.file.getvalue().splitlines()[-1]


def test_plain_lines_without_a_console_go_to_standard_error(capsys):
    with ProgressLine(snapshot, title="t", mode="plain"):
        pass

    captured = capsys.readouterr()
    assert captured.err == "t: epoch 0, it 0, 0:00\n"
    assert captured.out == ""


# The bar


def test_bar_is_one_line_that_ends_with_the_last_state():
    console, state = terminal_console(), {"iteration": 0}

    def read():
        return snapshot(state["iteration"], fraction=state["iteration"] / 50, losses={"loss": 0.5})

    with ProgressLine(read, title="vae", console=console) as line:
        for _ in range(5):
            state["iteration"] += 10
            line.refresh()

    lines = screen(console.file.getvalue())
    assert lines[1:] == [""]
    assert re.fullmatch(r"vae ━{12} 100%  epoch 0  it 50  .*0:00  loss 0.5", lines[0])


def test_note_stands_above_the_bar_as_written():
    console = terminal_console(width=60)

    with ProgressLine(snapshot, title="t", console=console) as line:
        line.note("saved [/red] :smile:")
        line.refresh()

    assert screen(console.file.getvalue()) == ["saved [/red] :smile:", "t epoch 0  it 0  0:00", ""]


def test_bar_leaves_the_cursor_visible_while_it_is_drawn():
    console = terminal_console()

    with ProgressLine(snapshot, title="t", console=console):
        written = console.file.getvalue()

    assert written.rfind("\x1b[?25h") > written.rfind("\x1b[?25l")


def test_bar_is_refreshed_by_the_thread_alone():
    console, reads = terminal_console(), []
    seen_twice = threading.Event()

    def read():
        reads.append(threading.current_thread().name)
        if len(reads) >= 3:
            seen_twice.set()
        return snapshot(len(reads))

    with ProgressLine(read, title="t", console=console):
        assert seen_twice.wait(5)

    assert reads[1:3] == ["jade-progress"] * 2


@pytest.mark.parametrize("console", [terminal_console(), log_console()])
def test_thread_ends_with_the_block_even_after_an_error(console):
    def train():
        with ProgressLine(snapshot, title="t", console=console):
            assert len(progress_threads()) == 1
            raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        train()

    assert progress_threads() == []
    assert "it 0" in console.file.getvalue()


def test_finish_twice_draws_once():
    console = log_console()

    with ProgressLine(snapshot, title="t", console=console) as line:
        line.finish()

    assert len(console.file.getvalue().splitlines()) == 1


def test_disabled_line_writes_nothing_and_reads_nothing():
    console = terminal_console()

    def read():
        raise AssertionError

    with ProgressLine(read, title="t", console=console, enabled=False) as line:
        line.note("silent")
        assert progress_threads() == []

    assert console.file.getvalue() == ""


# Failures


def test_read_that_raises_at_first_shows_starting_then_the_state():
    console, state = terminal_console(), {}

    with ProgressLine(lambda: snapshot(state["iteration"]), title="t", console=console) as line:
        assert screen(console.file.getvalue()) == ["t starting  0:00"]
        state["iteration"] = 3
        line.refresh()
        assert screen(console.file.getvalue()) == ["t epoch 0  it 3  0:00"]


def test_read_that_fails_later_keeps_the_last_state():
    console, state = log_console(), {"iteration": 3}

    with ProgressLine(lambda: snapshot(state["iteration"]), title="t", console=console):
        state.clear()

    assert console.file.getvalue() == "t: epoch 0, it 3, 0:00\n"


def test_loss_that_is_no_number_is_shown_as_text():
    console = log_console()

    with ProgressLine(lambda: snapshot(losses={"loss": None}), title="t", console=console):
        pass

    assert console.file.getvalue().endswith("loss None\n")


@pytest.mark.parametrize("mode", ["bar", "plain"])
def test_closed_pipe_never_disturbs_the_run(monkeypatch, mode):
    read_end, write_end = os.pipe()
    os.close(read_end)
    stdout_before = os.fstat(sys.stdout.fileno()).st_dev, os.fstat(sys.stdout.fileno()).st_ino
    broken = io.TextIOWrapper(io.FileIO(write_end, "w"), write_through=True)
    monkeypatch.setattr(sys, "stderr", broken)

    with ProgressLine(snapshot, title="t", mode=mode) as line:
        line.refresh()
        line.note("lost")

    stdout_after = os.fstat(sys.stdout.fileno()).st_dev, os.fstat(sys.stdout.fileno()).st_ino
    assert stdout_after == stdout_before
    assert progress_threads() == []
    broken.detach().close()


@pytest.mark.parametrize("console", [terminal_console(), log_console()])
def test_closed_console_never_disturbs_the_run(console):
    with ProgressLine(snapshot, title="t", console=console) as line:
        console.file.close()
        line.refresh()
        line.note("lost")

    assert progress_threads() == []


@pytest.mark.parametrize("console", [terminal_console(), log_console()])
def test_console_that_was_closed_before_never_disturbs_the_run(console):
    console.file.close()

    with ProgressLine(snapshot, title="t", console=console) as line:
        line.note("lost")

    assert progress_threads() == []


# The mode


@pytest.mark.parametrize(
    ("mode", "written"),
    [
        ("off", ""),
        ("plain", "t: epoch 0, it 0, 0:00\n"),
        ("PLAIN", "t: epoch 0, it 0, 0:00\n"),
    ],
)
def test_variable_forces_the_mode_on_a_terminal(monkeypatch, mode, written):
    monkeypatch.setenv("JADE_PROGRESS", mode)
    console = terminal_console()

    with ProgressLine(snapshot, title="t", console=console):
        pass

    assert console.file.getvalue() == written


def test_variable_forces_a_bar_into_a_file(monkeypatch):
    monkeypatch.setenv("JADE_PROGRESS", "bar")
    console = log_console()

    with ProgressLine(snapshot, title="t", console=console):
        pass

    assert "\r\x1b[2K" in console.file.getvalue()


def test_argument_wins_over_the_variable(monkeypatch):
    monkeypatch.setenv("JADE_PROGRESS", "bar")
    console = log_console()

    with ProgressLine(snapshot, title="t", console=console, mode="off"):
        pass

    assert console.file.getvalue() == ""


def test_unknown_mode_is_a_configuration_error(monkeypatch):
    monkeypatch.setenv("JADE_PROGRESS", "plane")

    with pytest.raises(ConfigError, match=r"JADE_PROGRESS: no mode 'plane'.*'plain'"):
        ProgressLine(snapshot, title="t")
    with pytest.raises(ConfigError, match="Progress mode: no mode 'rab'"):
        open_console("rab")


@pytest.mark.parametrize("mode", [None, "bar"])
def test_dumb_terminal_gets_plain_lines(monkeypatch, mode):
    monkeypatch.setenv("TERM", "dumb")
    console = terminal_console()

    with ProgressLine(snapshot, title="t", console=console, mode=mode):
        pass

    assert console.file.getvalue() == "t: epoch 0, it 0, 0:00\n"


@pytest.mark.filterwarnings("ignore:install:UserWarning")
def test_notebook_without_widgets_gets_plain_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    console = Console(force_jupyter=True, file=io.StringIO())

    with ProgressLine(snapshot, title="t", console=console):
        pass

    assert console.file.getvalue() == "t: epoch 0, it 0, 0:00\n"


def test_open_console_of_a_log_file_is_none(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    assert open_console() is None
    assert open_console("off") is None
    assert open_console("bar") is not None


def test_plain_progress_imports_neither_rich_nor_torch():
    code = """
        import sys
        from jade.progress import ConsoleHandler, ProgressLine, Snapshot, open_console
        ConsoleHandler(open_console())
        with ProgressLine(lambda: Snapshot(1, 0, None, {}, "training"), title="t"):
            pass
        assert not {"rich", "torch", "numpy"} & set(sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT
    )

    assert done.stderr == "t: epoch 0, it 1, 0:00\n"
    assert done.returncode == 0


# Logging


def log_through(handler, *records):
    for message, *arguments in records:
        handler.handle(logging.makeLogRecord({"msg": message, "args": tuple(arguments)}))


def test_log_records_stand_above_the_bar():
    console = terminal_console()

    with ProgressLine(snapshot, title="t", console=console) as line:
        log_through(ConsoleHandler(console), ("step %d [/x]", 3), ("two\nlines",))
        line.refresh()

    assert screen(console.file.getvalue()) == [
        "step 3 [/x]",
        "two",
        "lines",
        "t epoch 0  it 0  0:00",
        "",
    ]


def test_log_records_without_a_console_go_to_standard_error(capsys):
    log_through(ConsoleHandler(), ("plain",))

    assert capsys.readouterr().err == "plain\n"


def test_log_records_in_a_file_are_plain():
    console = log_console()

    log_through(ConsoleHandler(console), ("x" * 200,))

    assert console.file.getvalue() == "x" * 200 + "\n"


@pytest.mark.parametrize("console", [terminal_console(), log_console()])
def test_log_records_for_a_closed_console_are_dropped(console):
    console.file.close()

    log_through(ConsoleHandler(console), ("lost",))


def test_log_record_that_cannot_be_formatted_is_reported(capsys):
    log_through(ConsoleHandler(), ("%d", "x"))

    assert "--- Logging error ---" in capsys.readouterr().err


# A real terminal

TERMINAL_SCRIPT = """
    import logging, os, sys, time
    from jade.progress import ConsoleHandler, ProgressLine, Snapshot, open_console

    console = open_console() if sys.argv[1:] == ["shared"] else None
    logging.basicConfig(handlers=[ConsoleHandler(console)], format="%(message)s")
    state = {"iteration": 0}

    def read():
        n = state["iteration"]
        return Snapshot(n, n // 10, n / 40, {"loss": 0.25}, "training", 4)

    with ProgressLine(read, title="vae", console=console) as line:
        for state["iteration"] in range(41):
            time.sleep(0.02)
            if state["iteration"] == 10:
                print("printed [/x] " + "y" * 120)
            if state["iteration"] == 20:
                print("[/x]", end="", flush=True)
                logging.warning("logged")
                line.note("noted")
            if state["iteration"] == 30:
                child = os.fork()
                if child == 0:
                    os._exit(3 if hasattr(sys.stdout, "rich_proxied_file") else 0)
                line.note(f"child {os.waitpid(child, 0)[1]}")
    print("after")
"""


def run_in_terminal(script, *arguments, **streams):
    """Run the script on a pseudo terminal 100 columns wide; return what it and a pipe got."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    # From Python 3.12 on it warns of forks beside threads; here the fork is the point.
    quiet = ["-W", "ignore::DeprecationWarning"]
    command = [sys.executable, *quiet, "-c", textwrap.dedent(script), *arguments]
    streams = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
    # The environment as Python sees it: readline puts COLUMNS into the other one.
    with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), **streams) as process:
        os.close(slave)
        received = b""
        while chunk := read_terminal(master):
            received += chunk
        piped = process.stdout.read() if process.stdout else b""
    os.close(master)
    assert process.returncode == 0, received
    return received.decode(), piped.decode()


def read_terminal(master):
    try:
        return os.read(master, 4096)
    except OSError:
        return b""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize("console", ["shared", "default"])
def test_terminal_shows_one_line_that_is_rewritten(console):
    output, _ = run_in_terminal(TERMINAL_SCRIPT, console)

    lines = screen(output)
    assert lines[0] == "printed [/x] " + "y" * 120
    assert lines[1:5] == ["[/x]", "logged", "noted", "child 0"]
    assert re.fullmatch(r"vae ━{12} 100%  epoch 4/4  it 40  \d+\.?\d* it/s .*loss 0.25", lines[5])
    assert lines[6:] == ["after", ""]
    assert output.count("\r\x1b[2K") >= 5


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_standard_output_in_a_pipe_stays_out_of_the_terminal():
    output, piped = run_in_terminal(TERMINAL_SCRIPT, stdout=subprocess.PIPE)

    assert piped == "printed [/x] " + "y" * 120 + "\n[/x]after\n"
    assert screen(output)[:3] == ["logged", "noted", "child 0"]
    assert "100%" in screen(output)[3]

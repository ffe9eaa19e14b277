"""Be the process that a program would have if Python had just been started for it."""

import contextlib
import ctypes
import gc
import io
import os
import random
import runpy
import signal
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from jade.launch.inheritance import Finalizers
from jade.launch.program import FILE, MODULE
from jade.leaving import leave, run_exit_functions

PR_SET_PDEATHSIG = 1
# Python ignores these from the start, so that writing raises an error instead.
IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
NOT_FOUND = 127


class Forked:
    """What is left to do in a process that was forked for a program.

    Args:
        request: The fields of a `Program`.
        parent: The process that forked, and whose end asks this one to stop.
        strange_path: The entry of the module path that belongs to the parent.
        finalizers: What the parent has to do at its end.
    """

    def __init__(
        self, request: Mapping[str, Any], parent: int, strange_path: str, finalizers: Finalizers
    ) -> None:
        self._request = request
        self._parent = parent
        self._strange_path = strange_path
        self._finalizers = finalizers

    def run(self, output: int) -> NoReturn:
        """Run the program, and end as it ends."""
        code = 1
        try:
            self._settle(output)
            if self._request["kind"] is None:
                self._execute()
            self._imitate_start()
            code = call_as_main(self._run_entry)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            leave(code)

    def _settle(self, output: int) -> None:
        """Take a place of our own: a process group, a folder, an environment, files, signals."""
        os.setpgid(0, 0)
        follow_to_death(self._parent)
        if self._request.get("cores") and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self._request["cores"])
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(self._request["folder"])
        os.environ.clear()
        os.environ.update(self._request["environ"])
        time.tzset()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in IGNORED_BY_PYTHON:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def _execute(self) -> NoReturn:
        """Become a program of another kind."""
        command = self._request["arguments"]
        for name in IGNORED_BY_PYTHON:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        try:
            os.execvpe(command[0], command, dict(os.environ))  # noqa: S606
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            sys.stderr.flush()
            os._exit(NOT_FOUND)

    def _imitate_start(self) -> None:
        """Make what Python sets up at its start fit the program."""
        gc.enable()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(line_buffering=True)
        with contextlib.suppress(ValueError):
            sys.path.remove(self._strange_path)
        is_file = self._request["kind"] == FILE
        entry = self._request["entry"]
        sys.path.insert(0, str(Path(entry).resolve().parent) if is_file else os.getcwd())  # noqa: PTH109
        sys.argv[:] = [entry, *self._request["arguments"]]
        random.seed()
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.default_generator.seed()
        self._set_threads()
        self._finalizers.renew()

    def _set_threads(self) -> None:
        """Do what OMP_NUM_THREADS does, which only counts while torch is being imported."""
        given = os.environ.get("OMP_NUM_THREADS", "")
        wanted = self._request.get("num_threads") or (int(given) if given.isdigit() else 0)
        torch: Any = sys.modules.get("torch")
        if wanted and torch is not None and torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)

    def _run_entry(self) -> None:
        entry = self._request["entry"]
        if self._request["kind"] == MODULE:
            runpy.run_module(entry, run_name="__main__", alter_sys=True)
            return
        path = str(Path(entry).absolute())
        main = types.ModuleType("__main__")
        vars(main).update(__file__=path, __builtins__=__builtins__, __cached__=None)
        sys.modules["__main__"] = main
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, vars(main))  # noqa: S102


def call_as_main(function: Any) -> int:
    """Call what a program is, and return the exit code that Python would end with."""
    try:
        function()
    except SystemExit as request:
        if request.code is None or isinstance(request.code, int):
            return (request.code or 0) & 0xFF
        sys.stderr.write(f"{request.code}\n")
        return 1
    except BaseException as error:
        trace = _own_frames(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            run_exit_functions()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Leave out the frames that brought the program to run."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace


def follow_to_death(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent ends, whatever it ends of; Linux only."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)

"""End a process as soon as its work is done, with nothing that it has written being lost."""

import atexit
import contextlib
import gc
import io
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

# What holds back text or bytes for a while before they are written.
WRITING = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
# What Python itself runs a program by: `python -m jade` has these frames below its own.
RUNNERS = ("<frozen runpy>", f"{os.sep}runpy.py")


def end_program(main: Callable[[], int]) -> NoReturn:
    """Call what a program is, and end the process with the exit code that it returns.

    Once torch is loaded, Python takes half a second to take itself apart, in which a job that is
    to make room is still there. A debugger or profiler that runs the program is not taken by
    surprise: then the process ends as always.
    """
    try:
        code = main()
    except SystemExit as request:
        if not isinstance(request.code, int):
            raise
        code = request.code
    if _is_run_by_somebody(sys._getframe()):
        sys.exit(code)
    leave(code)


def leave(code: int) -> NoReturn:
    """End as Python does, but for taking all modules apart, which is the most of its time."""
    try:
        run_exit_functions()
    finally:
        os._exit(code)


def run_exit_functions() -> None:
    """Do what Python does first when it ends: wait for threads, call who asked for it, flush."""
    wait_for_threads: Any = getattr(threading, "_shutdown", None)
    if wait_for_threads is not None:
        wait_for_threads()
    run_registered: Any = getattr(atexit, "_run_exitfuncs", None)
    if run_registered is not None:
        run_registered()
    # Python closes what a program has left open, and what it has written must not be lost.
    for item in gc.get_objects():
        # Not isinstance: a proxy would do whatever it stands for.
        if issubclass(type(item), WRITING):
            with contextlib.suppress(OSError, ValueError):
                item.flush()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _is_run_by_somebody(frame: FrameType | None) -> bool:
    """Tell whether anything but Python itself has called the program, or looks on."""
    if sys.gettrace() is not None or sys.getprofile() is not None or sys.flags.inspect:
        return True
    while frame is not None and frame.f_globals.get("__name__") != "__main__":
        frame = frame.f_back
    below = None if frame is None else frame.f_back
    while below is not None and below.f_code.co_filename.endswith(RUNNERS):
        below = below.f_back
    return frame is None or below is not None

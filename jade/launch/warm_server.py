"""Fork programs from a process that has imported what they need, so that each starts at once.

::

    python -m jade.launch.warm_server FD MODULE...

It answers requests that come over the socket ``FD``, and reports which of its programs have
started and ended. It has one thread, computes nothing that could be noticed and never touches a
GPU, so that what it forks is as good as a process that Python has just started. When whoever asked
is gone, it asks its programs to stop, waits, and goes.
"""

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jade.launch.channel import Channel
from jade.launch.forked import Forked
from jade.launch.inheritance import Finalizers, use_huge_pages, warm_torch_up

# What somebody may send to every process of a job: here it is for the programs, not for us.
IGNORED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")
# How long programs may take to stop once nobody is there who would hear of it.
GRACE_S = 30.0


class WarmServer:
    """The side that forks."""

    def __init__(self, channel: Channel, grace_s: float = GRACE_S) -> None:
        self._channel = channel
        self._grace_s = grace_s
        self._keys: dict[int, str] = {}
        self._is_clean = True
        self._finalizers = Finalizers()
        self._wake_read, self._wake_write = os.pipe()
        # Whoever is forked has the folders of its own program on the path instead of ours.
        self._own_path = sys.path[0]

    def serve(self, modules: Iterable[str]) -> None:
        """Import, then fork until the other side is gone."""
        self._watch_signals()
        gc.disable()
        import_quietly(modules)
        warm_torch_up()
        self._settle()
        self._tell({"is": "ready", "pid": os.getpid()})
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            with contextlib.suppress(EOFError):
                while True:
                    self._answer({key.fileobj for key, _ in selector.select()})
        self._wind_up()
        self._finalizers.take_back()

    def _settle(self) -> None:
        """Put what is there in order, so that whoever is forked can leave it alone."""
        self._finalizers.set_aside()
        gc.freeze()
        use_huge_pages()

    def _answer(self, ready: set[Any]) -> None:
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        self._reap()
        if self._channel in ready:
            for message, files in self._channel.receive():
                try:
                    self._act(message, files)
                finally:
                    for number in files:
                        os.close(number)

    def _act(self, message: dict[str, Any], files: list[int]) -> None:
        what = message.pop("do")
        if what == "prepare":
            self._prepare(message)
        elif what == "signal":
            self._signal(message["key"], message["number"])
        elif not self._is_clean:
            self._tell({"is": "refused", "key": message["key"]})
        else:
            self._start(message, files[0])

    def _start(self, request: dict[str, Any], output: int) -> None:
        key = request.pop("key")
        # Until the program has handlers of its own, nothing gets lost or goes to ours.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            for number in (self._channel.fileno(), self._wake_read, self._wake_write):
                os.close(number)
            Forked(request, server, self._own_path, self._finalizers).run(output)
        with contextlib.suppress(OSError):
            # Here, too: whoever comes second finds it done.
            os.setpgid(pid, pid)
        self._keys[pid] = key
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        self._tell({"is": "started", "key": key, "pid": pid})

    def _prepare(self, request: Mapping[str, Any]) -> None:
        """Import what a program would import, and see whether we are still fit to fork."""
        problem = None
        try:
            rehearse(request["arguments"], request["environ"])
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        gc.collect()
        self._settle()
        self._is_clean = is_clean()
        self._tell({"is": "prepared", "clean": self._is_clean, "problem": problem})

    def _signal(self, key: str, number: int) -> None:
        """Send a signal to a program; as long as we have not reaped it, its number is its own."""
        for pid in [pid for pid, known in self._keys.items() if known == key]:
            send_signal(pid, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            key = self._keys.pop(pid, None)
            if key is not None:
                self._tell({"is": "ended", "key": key, "code": os.waitstatus_to_exitcode(status)})

    def _tell(self, message: Mapping[str, Any]) -> None:
        # Whoever is gone is noticed when nothing can be received any more.
        with contextlib.suppress(OSError):
            self._channel.send(message)

    def _watch_signals(self) -> None:
        for name in IGNORED:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _wind_up(self) -> None:
        """Let the programs stop as they would when their job ends, then make sure that they do."""
        for pid in self._keys:
            send_signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        while self._keys and time.monotonic() < deadline:
            time.sleep(0.05)
            self._reap()
        for pid in self._keys:
            send_signal(pid, signal.SIGKILL)


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a program; one that it cannot refuse also goes to what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number == signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def import_quietly(modules: Iterable[str]) -> None:
    """Import modules; those that are missing here are missing in the programs, too."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        if name == "torch":
            # By its name: this side of JADE is started without torch where no warmth is wanted.
            startup: Any = importlib.import_module("jade.torch_startup")
            startup.defer_dynamo()


def rehearse(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Resolve the configuration of a training, so that the files of the user are imported."""
    from jade import provenance, yaml_file
    from jade.command_line import collect_overrides
    from jade.config import Sources, load
    from jade.envvars import exported
    from jade.resolve import resolve

    check: Any = importlib.import_module("jade.check")
    # By its name: commands are above us.
    train: Any = importlib.import_module("jade.commands.train")
    for program in ("jade train", "python train.py"):
        parser = train.make_parser(program)
    given = list(arguments[arguments[:1] == ["train"] :])
    # The usual question of a user's file, torch.cuda.is_available(), must not start CUDA here.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    try:
        overrides = collect_overrides(*parser.parse_known_args(given))
        configuration = load(Sources(arguments=overrides, environ=environ))
        with exported(configuration.environ):
            resolved = resolve(configuration, look_further=check.find_problems)
        # What each run would otherwise work out anew: how texts are written, what this machine is.
        yaml_file.render(resolved.frozen)
        yaml_file.render(resolved.expanded)
        provenance.describe_machine()
        provenance.find_packages()
    finally:
        del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]


def is_clean() -> bool:
    """Tell whether forking is safe: nothing but one thread, and no GPU in use."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    # The threads of some libraries end when a process forks, and only come back when needed.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    tasks = Path("/proc/self/task")
    return not tasks.is_dir() or len(list(tasks.iterdir())) == 1


if __name__ == "__main__":
    WarmServer(Channel(socket.socket(fileno=int(sys.argv[1])))).serve(sys.argv[2:])

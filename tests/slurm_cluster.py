"""A real SLURM of two nodes on 127.0.0.1: Debian's slurm-wlm, started without systemd or cgroups."""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "unshare")
# Many tests may run at a time.
TIMEOUT_S = 600.0
NODES = ("n1", "n2")
# A credential of munge that is older is refused; a job that is queued again waits as long.
CREDENTIAL_S = 5
CONFIGURATION = """\
ClusterName=jade
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={state}/munge/socket,cred_expire={credential_s}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={state}/state
SlurmdSpoolDir={state}/spool/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd-%n.pid
SlurmctldLogFile={state}/log/slurmctld.log
SlurmdLogFile={state}/log/slurmd-%n.log
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
InactiveLimit=0
CompleteWait=0
MinJobAge=3600
SlurmctldTimeout=30
SlurmdTimeout=10
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE DefaultTime=10 PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=n[1-2] MaxTime=INFINITE DefaultTime=10 PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=abrupt Nodes=n[1-2] MaxTime=INFINITE DefaultTime=10 PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=n[1-2] MaxTime=INFINITE DefaultTime=10 PriorityTier=10 PreemptMode=OFF
"""
NODE = (
    "NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=4 Boards=1 "
    "SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:2"
)


def missing() -> str | None:
    """Say why there can be no cluster here; None if there can."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if absent:
        return f"SLURM is not installed ({', '.join(absent)}): make slurm"
    if os.geteuid() != 0:
        return "only root can start a SLURM of several nodes"
    return None


def search_path() -> str:
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


def wait_for(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait until something holds, and fail with what is the case if it never does."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


class SlurmCluster:
    """A controller and two nodes with four cores, two useless GPUs and host names of their own.

    Everything is below one folder, and ends with the ``with`` block.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemons: dict[str, subprocess.Popen] = {}
        # What the host names of nodes are kept in: see namespaces(7).
        self._hosts: dict[str, str] = {}

    def __enter__(self) -> "SlurmCluster":
        try:
            self._write_files()
            self._start("munged", *self._munge_arguments())
            socket_path = self._folder / "munge" / "socket"
            wait_for(socket_path.exists, lambda: "munged does not start")
            self._start("slurmctld", "-D", "-i")
            for name in NODES:
                self.start_node(name)
            wait_for(self._is_ready, self.describe)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.clear()
        for name in reversed(list(self._daemons)):
            self._stop(name)
        self._end_strays()

    @property
    def environ(self) -> dict[str, str]:
        """What leads programs to this cluster."""
        return {"SLURM_CONF": str(self._folder / "slurm.conf")}

    def call(self, *command: str, **options: object) -> str:
        """Run a command of SLURM, and return what it prints."""
        settings = {"env": {**os.environ, **self.environ}, "timeout": 60, **options}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self, *options: str) -> dict[str, dict[str, str]]:
        """Return the jobs that the queue knows, ended ones as well, by their ids."""
        names = ("state", "name", "node", "reason", "restarts", "exit")
        form = "%i|%T|%j|%N|%r"
        lines = self.call("squeue", "-h", "-r", "-t", "all", "-o", form, *options).splitlines()
        found = {}
        for line in lines:
            job_id, *values = line.split("|")
            found[job_id] = dict(zip(names, values, strict=False))
        return found

    def details(self, job_id: str) -> dict[str, str]:
        """Return what the controller knows of one job."""
        text = self.call("scontrol", "-o", "show", "job", job_id)
        return dict(item.split("=", 1) for item in text.split() if "=" in item)

    def active(self) -> list[str]:
        """Return the ids of the jobs that wait, run or are being ended."""
        lines = self.call("squeue", "-h", "-r", "-o", "%i").split()
        return sorted(lines)

    def wait_until_empty(self) -> None:
        wait_for(lambda: not self.active(), self.describe)

    def clear(self) -> None:
        """End all jobs."""
        if self.active():
            self.call("scancel", "--user=root")
            time.sleep(0.2)
            if self.active():
                self.call("scancel", "--user=root", "--signal=KILL", "--full")
            self.wait_until_empty()

    def describe(self) -> str:
        return "\n".join(
            [
                self.call("squeue", "-r", "-t", "all"),
                self.call("sinfo", "-N", "-o", "%N %T %E"),
                *(
                    f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
                    for path in sorted((self._folder / "log").glob("*.log"))
                ),
            ]
        )

    def start_node(self, name: str) -> None:
        """Start the daemon of a node; programs there see another host name."""
        hosts = shlex.quote(str(self._folder / "hosts"))
        inside = f"hostname {name} && mount --bind {hosts} /etc/hosts && exec slurmd -D -N {name}"
        self._start(name, "unshare", "--uts", "--mount", "sh", "-c", inside)
        pid = self._daemons[name].pid
        wait_for(lambda: _host(pid) != _host("self"), lambda: f"{name} gets no name of its own")
        self._hosts[name] = _host(pid)

    def kill_node(self, name: str) -> None:
        """Let a node die: its daemon, the processes that watch over jobs, and the jobs."""
        daemon = self._daemons.pop(name)
        for pid in [daemon.pid, *self._processes_of(name)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        daemon.wait()

    def _is_ready(self) -> bool:
        if self._daemons["slurmctld"].poll() is not None:
            raise AssertionError(self.describe())
        done = subprocess.run(
            ["sinfo", "-h", "-N", "-p", "main", "-o", "%N %T"],
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.split() == ["n1", "idle", "n2", "idle"]

    def _write_files(self) -> None:
        for name in ("munge", "state", "spool/n1", "spool/n2", "log", "dev"):
            (self._folder / name).mkdir(parents=True, mode=0o755)
        self._folder.chmod(0o755)
        key = self._folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for number in range(2):
            os.mknod(self._folder / "dev" / f"nvidia{number}", 0o20666, os.makedev(1, 3))
        ports = _free_ports(1 + len(NODES))
        nodes = [
            NODE.format(name=name, port=port) for name, port in zip(NODES, ports[1:], strict=True)
        ]
        text = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            controller_port=ports[0],
            state=self._folder,
            credential_s=CREDENTIAL_S,
            nodes="\n".join(nodes),
        )
        (self._folder / "slurm.conf").write_text(text)
        gres = f"NodeName=n[1-2] Name=gpu File={self._folder}/dev/nvidia[0-1]\n"
        (self._folder / "gres.conf").write_text(gres)
        names = "".join(f"127.0.0.1 {name}\n" for name in (socket.gethostname(), *NODES))
        (self._folder / "hosts").write_text(f"{Path('/etc/hosts').read_text()}\n{names}")

    def _munge_arguments(self) -> list[str]:
        place = self._folder / "munge"
        return [
            "--foreground",
            "--force",
            f"--socket={place / 'socket'}",
            f"--key-file={place / 'key'}",
            f"--pid-file={place / 'pid'}",
            f"--log-file={place / 'log'}",
            f"--seed-file={place / 'seed'}",
        ]

    def _start(self, name: str, *command: str) -> None:
        program = command if name in NODES else (name, *command)
        with (self._folder / "log" / f"{name}.out.log").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                program,
                env={**os.environ, **self.environ, "PATH": search_path()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _stop(self, name: str) -> None:
        daemon = self._daemons.pop(name)
        if daemon.poll() is None:
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _processes_of(self, name: str) -> list[int]:
        """Find the processes of a node: they share its host name."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if _host(path.name) == self._hosts[name]:
                    found.append(int(path.name))
        return found

    def _end_strays(self) -> None:
        for pid in [pid for name in self._hosts for pid in self._processes_of(name)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _host(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/uts").readlink())


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


if __name__ == "__main__":
    # For trying things out: a cluster until Ctrl-C.
    import tempfile

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as place, SlurmCluster(Path(place)) as cluster:
        sys.stdout.write(f"export SLURM_CONF={cluster.environ['SLURM_CONF']}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()

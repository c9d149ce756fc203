"""A SLURM of two nodes on this machine: `python tests/slurm/cluster.py up|status|down FOLDER`, as root.

Real daemons of Debian's packages slurm-wlm and munge, with a key, ports and a spool of their own under FOLDER, which
`down` leaves empty of processes. `up` prints the variable by which sbatch, srun and scontrol find it.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

from fixtures.processes import is_alive, stat_of

NODES = "n1", "n2"
PROGRAMS = "munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel"
# A requeued job waits until its credential has expired: two minutes, unless told otherwise.
CONFIG = """
ClusterName=isentropic
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
KillWait=5
MinJobAge=600
GresTypes=gpu
NodeName=n1 NodeHostname=localhost Port={first} CPUs=4 RealMemory=8000 Gres=gpu:2
NodeName=n2 NodeHostname=localhost Port={second} CPUs=4 RealMemory=8000 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 State=UP
"""


def missing() -> str | None:
    """Why there can be no cluster here, or None."""
    absent = [name for name in PROGRAMS if find(name) is None]
    if absent:
        return f"{', '.join(absent)} not found; apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "slurmd starts jobs only as root"


def find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def up(folder: Path) -> dict[str, str]:
    """Starts all daemons and waits for both nodes; the environment in which SLURM's commands find them."""
    if (reason := missing()) is not None:
        raise SystemExit(f"no cluster can be set up here: {reason}")
    for name in ("state", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)  # munged and slurmctld refuse folders that others can write to
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    controller, first, second = free_ports(3)
    (folder / "slurm.conf").write_text(
        CONFIG.format(folder=folder, controller=controller, first=first, second=second).lstrip()
    )
    (folder / "gres.conf").write_text("NodeName=n[1-2] Name=gpu File=/dev/tty[0-1]\n")
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    try:
        daemon(folder, "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
        wait(lambda: (folder / "munge.socket").exists(), "munged opens its socket")
        daemon(folder, "slurmctld", "-D", "-i")
        wait(lambda: "is UP" in ask(folder, "scontrol", "ping"), "slurmctld answers")
        for node in NODES:
            daemon(folder, "slurmd", "-D", "-N", node, name=f"slurmd.{node}")
        wait(lambda: ask(folder, "sinfo", "-h", "-N", "-o", "%t").split() == ["idle", "idle"], "both nodes are idle")
    except BaseException:
        down(folder)
        raise
    return environment(folder)


def status(folder: Path) -> str:
    return ask(folder, "sinfo", "-N") + ask(folder, "squeue")


def down(folder: Path) -> None:
    """Ends the jobs, then the daemons, then what is left of either; nothing that was not started from this folder."""
    ask(folder, "scancel", "--user=root")
    patient(lambda: not ask(folder, "squeue", "-h").strip(), seconds=8)
    for name in (*(f"slurmd.{node}" for node in NODES), "slurmctld", "munged"):
        kill(daemon_pids(folder, name), signal.SIGTERM)
        if not patient(lambda name=name: not daemon_pids(folder, name), seconds=5):
            kill(daemon_pids(folder, name), signal.SIGKILL)
    kill(job_pids(folder), signal.SIGKILL)


def environment(folder: Path) -> dict[str, str]:
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def daemon(folder: Path, program: str, *arguments: str, name: str | None = None) -> None:
    path, name = find(program), name or program
    assert path is not None
    with (folder / f"{name}.out").open("ab") as out:
        process = subprocess.Popen(
            [path, *arguments], env=clean() | environment(folder), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    (folder / f"{name}.started").write_text(str(process.pid))


def clean() -> dict[str, str]:
    """Daemons hand their environment to steps; that of a job this runs in must not be among it."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}


def ask(folder: Path, *command: str) -> str:
    """What one of SLURM's commands says; nothing where no controller answers."""
    try:
        result = subprocess.run(
            command, env=clean() | environment(folder), capture_output=True, text=True, timeout=20, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return result.stdout


def wait(holds: Callable[[], bool], what: str) -> None:
    if not patient(holds, seconds=30):
        raise SystemExit(f"after 30 s it is not the case that {what}; see the .out and .log files of the folder")


def patient(holds: Callable[[], bool], seconds: float) -> bool:
    end = monotonic() + seconds
    while not (found := holds()) and monotonic() < end:
        sleep(0.1)
    return found


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


def daemon_pids(folder: Path, name: str) -> list[int]:
    """One or none; a number that was given to another process since is not one."""
    started = folder / f"{name}.started"
    pids = [int(started.read_text())] if started.exists() else []
    return [pid for pid in pids if variables(pid).get("SLURM_CONF") == str(folder / "slurm.conf")]


def job_pids(folder: Path) -> list[int]:
    """Steps and tasks that outlived their daemons."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    ours = {pid: variables(pid) for pid in numbers if pid not in set(ancestors())}
    conf = str(folder / "slurm.conf")
    return [
        pid
        for pid, names in ours.items()
        if names.get("SLURM_CONF") == conf and ("SLURM_JOB_ID" in names or command(pid) == "slurmstepd")
    ]


def ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 1:
        yield pid
        pid = int(stat_of(pid)[1])


def variables(pid: int) -> dict[str, str]:
    """Of a living process, as it was started; none of a dead or foreign one."""
    if not is_alive(pid):
        return {}
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def kill(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("up", "status", "down"):
        raise SystemExit("usage: python tests/slurm/cluster.py up|status|down FOLDER")
    place = Path(sys.argv[2]).absolute()
    if sys.argv[1] == "up":
        print("\n".join(f"export {name}={value}" for name, value in up(place).items()))
    elif sys.argv[1] == "status":
        print(status(place), end="")
    else:
        down(place)

"""A Slurm of this machine alone: munge, a controller and two node daemons on loopback, in the foreground, ended by id."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import workers  # noqa: E402  (of tests/cluster)

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol")
PR_SET_CHILD_SUBREAPER = 36
CONFIGURATION = """\
ClusterName=brigade
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=20
RequeueExit=75
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]},{ports[2]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def why_not():
    """Why there can be no Slurm here; None if there can."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    missing = [program for program in PROGRAMS if shutil.which(program, path=search) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: slurm-wlm and munge)"
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    return None


def children_of(pid):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def descendants_of(pid):
    found = children_of(pid)
    for child in list(found):
        found += descendants_of(child)
    return found


class SlurmCluster:
    """Two nodes, node1 and node2, with four processors each, whatever this machine has."""

    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the daemons' children, when a daemon is gone
        self._folder = tempfile.TemporaryDirectory(prefix="brigade-slurm-")
        self.folder = pathlib.Path(self._folder.name)
        os.chmod(self.folder, 0o755)
        host = socket.gethostname().split(".")[0]
        (self.folder / "state").mkdir()
        self._configuration = self.folder / "slurm.conf"
        self._configuration.write_text(CONFIGURATION.format(host=host, folder=self.folder, ports=workers.free_ports(3)))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        # Slurm has numbered the processes of this one, if it runs in a job itself.
        self.environment = {name: value for name, value in workers.environment().items() if not name.startswith("SLURM")}
        self.environment["SLURM_CONF"] = str(self._configuration)
        self.environment["PATH"] = os.pathsep.join([self.environment["PATH"], "/usr/sbin"])
        self.environment["MASTER_ADDR"] = "127.0.0.1"  # node1 is no host that a name server knows
        self._daemons = []

    def start(self):
        at = self.folder
        self._start("munged", "--foreground", "--force", f"--key-file={at}/munge.key", f"--socket={at}/munge.socket",
                    f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.log", f"--seed-file={at}/munged.seed")
        workers.wait_until((at / "munge.socket").exists)
        self._start("slurmctld", "-D", "-c")
        for node in ("node1", "node2"):
            self._start("slurmd", "-D", "-N", node)
        workers.wait_until(lambda: self.run("scontrol", "show", "nodes").stdout.count("State=IDLE") == 2, pause=0.2)

    def _start(self, program, *arguments):
        log = (self.folder / f"{program}-{len(self._daemons)}.out").open("wb")
        self._daemons.append(subprocess.Popen([program, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log))
        log.close()

    def run(self, *arguments):
        return subprocess.run(list(map(str, arguments)), env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=workers.DEADLINE)

    def submit(self, script, *flags):
        """The number of the job."""
        result = self.run("sbatch", "--parsable", *flags, script)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return int(result.stdout.split(";")[0])

    def job(self, number):
        """What scontrol says of a job: {"JobState": "RUNNING", ...}."""
        return dict(re.findall(r"(\w+)=(\S*)", self.run("scontrol", "show", "job", number).stdout))

    def tasks_on(self, node):
        """Processes of the command that this node's daemon has started."""
        found = []
        for pid in descendants_of(os.getpid()):
            try:
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            if f"SLURMD_NODENAME={node}".encode() in variables and program.endswith("/brigade-core"):
                found.append(pid)
        return found

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.folder.glob("*.log")) if path.is_file())

    def stop(self):
        """Ends everything that was started here, and what that has left."""
        self.run("scancel", "--user=root", "--full")
        end = time.monotonic() + 10 * workers.SLOWNESS
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        while left := descendants_of(os.getpid()):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                pass
        self._folder.cleanup()


def last_json(text):
    """The last line that is a JSON object."""
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])

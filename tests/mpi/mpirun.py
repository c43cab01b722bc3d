"""Processes that mpirun starts on this machine, watched and ended by id."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import workers  # noqa: E402  (of tests/cluster)

NOT_BUILT_IN = 77
# As root, on any number of cores, with all processes here: without ssh.
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated")


def children_of(pid):
    """Ids of the running processes that this one has started."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(after_name[1]) == pid and after_name[0] != "Z":
            found.append(int(status.parent.name))
    return found


def is_there(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class MpiTest(workers.ClusterTest):
    """A test that ends its mpirun, and what that started. Skipped without MPI."""

    @classmethod
    def setUpClass(cls):
        if shutil.which("mpirun") is None:
            raise unittest.SkipTest("mpirun is not installed (Debian: openmpi-bin)")
        if subprocess.run([os.environ["BRIGADE_MPI_RANKS"], "--gtest_list_tests"], stdout=subprocess.DEVNULL,
                          env=workers.environment()).returncode == NOT_BUILT_IN:
            raise unittest.SkipTest("MPI is not built in (Debian: libopenmpi-dev)")

    def start_mpirun(self, count, *command, options=()):
        process = self.start_process(*command, program=(*MPIRUN, "--mca", "orte_tmpdir_base", str(self.folder),
                                                       *options, "-n", str(count)))
        self.addCleanup(self._end, process)
        return process

    def _end(self, process):
        """By SIGTERM, so that mpirun ends the processes it has started."""
        if process.is_running():
            process.signal(signal.SIGTERM)
            process.wait()

    def rank_pids(self, process, count):
        """The ids of the ranks' processes, by rank."""
        workers.wait_until(lambda: len(children_of(process.pid)) == count)
        ranks = {}
        for pid in children_of(process.pid):
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks[next(int(each.split(b"=")[1]) for each in variables if each.startswith(b"OMPI_COMM_WORLD_RANK="))] = pid
        return [ranks[rank] for rank in range(count)]

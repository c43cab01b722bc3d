"""A job on two hosts with networks of their own, joined by a cable: two network namespaces and a veth pair."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import network_namespace

from launcher import SLOWNESS, LaunchTest, shell

MEMBER = os.environ["BRIGADE_LAUNCH_MEMBER"]
PEER_TIMEOUT = 2.0 * SLOWNESS
SLACK = 10.0 * SLOWNESS
KEY = "5" * 64
PORT = 29400
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words, inside=()):
    subprocess.run([*inside, "ip", *words], check=True, capture_output=True, text=True)


class TwoNetworks(LaunchTest):
    @classmethod
    def setUpClass(cls):
        for program in ("ip", "nsenter", "unshare"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"the program {program} is not there")
        try:
            cls.addClassCleanup(network_namespace.enter())
            cls.make_second_network()
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"networks of its own are not permitted here: {error}")

    @classmethod
    def make_second_network(cls):
        """That of a process which does nothing else: the namespace goes with it."""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo there; exec sleep 1000"], stdout=subprocess.PIPE)
        cls.addClassCleanup(holder.stdout.close)
        cls.addClassCleanup(holder.wait)
        cls.addClassCleanup(holder.kill)
        if holder.stdout.readline() != b"there\n":
            raise OSError("no second network namespace")
        cls.inside = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        ip("link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
        ip("link", "set", "cable1", "netns", str(holder.pid))
        for index, inside in enumerate(((), cls.inside)):
            ip("addr", "add", f"{ADDRESSES[index]}/24", "dev", f"cable{index}", inside=inside)
            ip("link", "set", f"cable{index}", "up", inside=inside)
            ip("link", "set", "lo", "up", inside=inside)

    def start_hosts(self, program, *flags, keys=(KEY, KEY)):
        jobs = []
        for index, key in enumerate(keys):
            environment = {"BRIGADE_CLUSTER_KEY": key} if key else {}
            jobs.append(self.start(["--nnodes", 2, "--node-rank", index, "--rendezvous", f"{ADDRESSES[0]}:{PORT}",
                                    "--peer-timeout", PEER_TIMEOUT, "--start-timeout", 60 * SLOWNESS, "--json", *flags],
                                   program, prefix=self.inside if index else (), **environment))
        return jobs

    def joined(self, jobs, generation=0):
        """The processes, one a host, when all have met."""
        found = []
        for job in jobs:
            while True:
                words = job.line("[").split()
                if words[1:3] == ["joined", str(generation)]:
                    found.append(int(words[3]))
                    break
        return found

    def test_processes_join_with_a_key_and_restart_together(self):
        jobs = self.start_hosts([MEMBER], "--max-restarts", 1)
        programs = self.joined(jobs)
        os.kill(programs[1], signal.SIGKILL)
        self.joined(jobs, generation=1)
        jobs[1].send(signal.SIGTERM)
        self.assertEqual([job.end() for job in jobs], [75, 75], [job.errors_text() for job in jobs])
        self.assertEqual([job.result()["restarts"] for job in jobs], [1, 1])
        self.assert_nothing_is_left()

    def test_the_master_of_other_programs_is_reached_from_the_other_host(self):
        jobs = self.start_hosts(shell("echo $MASTER_ADDR"))
        self.assertEqual([job.end() for job in jobs], [0, 0], [job.errors_text() for job in jobs])
        self.assertEqual([job.output[0] for job in jobs], [f"[{rank}] {ADDRESSES[0]}" for rank in range(2)])

    def test_without_a_key_nobody_listens_or_connects(self):
        for job in self.start_hosts(["/bin/true"], keys=(None, None)):
            self.assertEqual(job.end(), 2)
            self.assertIn("Without a cluster key", job.errors_text())

    def test_another_key_is_refused(self):
        jobs = self.start_hosts(["/bin/true"], keys=(KEY, "6" * 64))
        self.assertEqual(jobs[1].end(), 2)
        self.assertIn("The cluster key of this process differs", jobs[1].errors_text())
        jobs[0].send(signal.SIGTERM)
        self.assertEqual(jobs[0].end(), 75)

    def test_a_cut_cable_ends_the_job_on_both_sides(self):
        jobs = self.start_hosts(shell("trap 'echo saved; exit 75' TERM; echo ready; while :; do sleep 0.01; done"))
        for rank, job in enumerate(jobs):
            job.line(f"[{rank}] ready")
        begin = time.monotonic()
        ip("link", "set", "cable0", "down")
        self.addCleanup(ip, "link", "set", "cable0", "up")
        self.assertEqual([job.end() for job in jobs], [137, 137], [job.errors_text() for job in jobs])
        took = time.monotonic() - begin
        print(f"cable cut: both hosts had ended after {took:.2f} s", flush=True)
        self.assertLess(took, PEER_TIMEOUT + SLACK)
        for rank, job in enumerate(jobs):
            self.assertIn(f"The launcher of host {1 - rank} (", job.errors_text())
            self.assertIn("has not been heard from for", job.errors_text())
            self.assertIn(f"[{rank}] saved", job.output)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()

"""What can happen to a worker, as a table: each case hurts a launched training in one phase, and it must end with the weights
of the one that nobody hurt. `./dev soak --matrix` runs all of them. Then the same without a launcher: the others end, with 1,
and say why."""
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import faults
import soak

from workers import COMMAND, ENDLESS, FOUND_WITHIN, PEER_TIMEOUT, SLACK, TINY, ClusterTest

RUN = (*TINY, *ENDLESS, "--batch-size", "16", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")
# Two or three seconds each; those of SIGSTOP as long as the peer timeout. Being slow is slow_worker_test's.
CASES = (
    ("SIGKILL", "start-up", 1),
    ("SIGKILL", "checkpoint", 0),
    ("SIGKILL", "shutdown", 1),
    ("SIGSTOP", "checkpoint", 1),
    ("socket", "joining", 1),
    ("socket", "step", 0),
    ("socket", "shutdown", 1),
    ("disk", "start-up", 0),
    ("disk", "checkpoint", 0),
)


def brought_here(test):
    """For faults that need rights that not everybody has: skips where they are missing."""
    def run(self):
        try:
            test(self)
        except faults.NotPermitted as error:
            self.skipTest(str(error))
    return run


class Launched(unittest.TestCase):
    @brought_here
    def test_faults_cost_no_bit(self):
        limit = FOUND_WITHIN + SLACK
        self.assertEqual(soak.main(["--matrix", "--limit", str(limit), "--command", COMMAND], CASES), 0)


class Matrix(unittest.TestCase):
    def test_has_each_fault_in_each_phase(self):
        cases = soak.Matrix.cases()
        for kind in faults.NAMES:
            for phase in ("start-up", "step", "checkpoint", "shutdown"):
                if (kind, phase) not in soak.Matrix.LEFT_OUT:
                    self.assertIn((kind, phase, 0), cases)
        self.assertLessEqual(set(CASES), set(cases))

    def test_a_fault_that_nobody_noticed_came_too_late(self):
        fault = soak.Fault(faults.means_of("SIGKILL", 0), 0, "shutdown")
        self.assertTrue(fault.was_too_late())
        fault.detected, fault.restarts = 0.1, 1
        self.assertFalse(fault.was_too_late())
        self.assertIsNone(fault.problem(limit=10))
        self.assertIn("only after", fault.problem(limit=0.05))

    def test_a_restart_without_a_name_is_a_problem(self):
        fault = soak.Fault(faults.means_of("socket", 0), 1, "step")
        fault.restarts = 1
        self.assertIn("not reported", fault.problem(limit=10))

    def test_who_is_ended_for_being_slow_is_a_problem(self):
        fault = soak.Fault(faults.means_of("slow", 1), 1, "step")
        self.assertIsNone(fault.problem(limit=10))
        fault.restarts = 1
        self.assertIn("for being slow", fault.problem(limit=10))


class ByHand(ClusterTest):
    """Workers with a TF_CONFIG each."""

    def training(self, count, *arguments):
        workers = self.start(count, *RUN, *arguments)
        workers[0].wait_for(r"^step \d+")
        return workers

    def check_cut(self, victim, transport):
        workers = self.training(2, "--transport", transport)
        since = time.monotonic()
        self.assertGreater(faults.cut_connections(workers[victim].pid), 0)
        took = self.assert_name([workers[1 - victim]], victim, since)
        # Whose connections are gone sees nobody; it ends, too, with an error of its own.
        self.assertEqual(workers[victim].wait(), 1, workers[victim].lines()[-8:])
        self.assertRegex(workers[victim].last_line(), r"^brigade: error: /job:worker/task:\d .* was lost")
        print(f"connections of worker {victim} closed ({transport}): the other ended after {took:.2f} s", flush=True)

    @brought_here
    def test_closed_sockets_of_the_worker(self):
        self.check_cut(1, "shared_memory")

    @brought_here
    def test_closed_sockets_of_the_chief(self):
        self.check_cut(0, "shared_memory")

    @brought_here
    def test_closed_sockets_of_the_worker_over_tcp(self):
        self.check_cut(1, "gloo")

    @brought_here
    def test_closed_sockets_of_the_chief_over_tcp(self):
        self.check_cut(0, "gloo")

    @brought_here
    def test_full_disk(self):
        self.fill_the_disk()

    @brought_here
    def test_full_disk_where_all_write(self):
        self.fill_the_disk("--checkpoint-writers", "all")

    def fill_the_disk(self, *flags):
        faults.enter_own_mounts()
        disk = faults.SmallDisk(self.folder / "disk")
        self.addCleanup(disk.remove)
        chief, worker = self.training(2, "--save-every", "20steps", "--model-dir", disk.path / "run", *flags)
        since = time.monotonic()
        disk.fill()
        self.assertEqual(chief.wait(), 1, chief.lines()[-8:])
        part = r"(/job:worker/task:1 could not write its part of the checkpoint: )?" if flags else ""
        self.assertRegex(chief.last_line(), rf"^brigade: error: {part}cannot \w+ {disk.path}/run/\S+: No space left on device")
        self.assertEqual(worker.wait(), 1, worker.lines()[-8:])
        self.assertIn("/job:worker/task:0", worker.last_line())
        print(f"disk full: both ended after {time.monotonic() - since:.2f} s", flush=True)


if __name__ == "__main__":
    unittest.main()

"""A training below `brigade launch --max-restarts`: a rank that is killed costs seconds, and not a bit."""
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import training_job

from workers import COMMAND, PEER_TIMEOUT, SLOWNESS

GOAL = 5.0 * SLOWNESS  # seconds from SIGKILL to the next step, on a machine that has nothing else to do


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-launched-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def job(self, name):
        return training_job.Job(COMMAND, self.folder / name, peer_timeout=PEER_TIMEOUT, restarts=3)

    def kill_in_the_middle(self, rank):
        with self.job("unhurt") as job:
            wanted = job.result()
        with self.job("hurt") as job:
            at_work = job.wait_until(lambda: [step for _, step in job.matches(r"\bstep (\d+)/", 0) if int(step[1]) >= 40],
                                     "step 40")
            self.assertTrue(at_work, job.tail())
            pid = job.ranks()[rank]
            begin = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            again = job.wait_until(lambda: job.matches(r"\btraining mlp on ", begin), "the restart")
            self.assertTrue(again, job.tail())
            stepped = job.wait_until(lambda: job.matches(r"\bstep \d+/", again[0][0]), "the next step")
            self.assertTrue(stepped, job.tail())
            took = stepped[0][0] - begin
            print(f"rank {rank} killed: next step after {took:.2f} s (goal on an idle machine: {GOAL:.0f} s)", flush=True)
            result = job.result()
        self.assertEqual(result["weights_sha256"], wanted["weights_sha256"])
        self.assertGreaterEqual(result["first_step"], 30)
        self.assertLess(took, 6 * GOAL)

    def test_worker_killed_in_the_middle(self):
        self.kill_in_the_middle(1)

    def test_chief_killed_in_the_middle(self):
        self.kill_in_the_middle(0)


if __name__ == "__main__":
    unittest.main()

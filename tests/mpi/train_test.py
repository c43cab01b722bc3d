"""Training over MPI, started by mpirun: the weights, and what happens to the other processes if one is killed."""
import json
import os
import signal
import time
import unittest
import unittest.mock

from mpirun import MpiTest, is_there
from workers import COMMAND, DEADLINE, ENDLESS, FOUND_WITHIN, SLACK, STEP, TINY, WORKERS, wait_until

RUN = (*TINY, "--optimizer", "sgd", "--learning-rate", "0.1", "--global-batch-size", "32", "--steps", "12")
OVER_MPI = ("--transport", "mpi")


class Train(MpiTest):
    def start_training(self, count, *arguments, options=()):
        return self.start_mpirun(count, COMMAND, "train", *WORKERS, *arguments, options=options)

    def train_with_mpirun(self, count, *arguments):
        """The result, which only the chief prints."""
        process = self.start_training(count, *arguments)
        self.assertEqual(process.wait(), 0, process.lines()[-20:])
        return json.loads(process.output())

    def test_has_the_bits_of_the_other_transports(self):
        for count in (2, 3):
            with self.subTest(workers=count):
                wanted = self.train(count, *RUN, "--transport", "gloo")["weights_sha256"]
                self.assertEqual(self.train(count, *RUN, "--transport", "shared_memory")["weights_sha256"], wanted)
                self.assertEqual(self.train_with_mpirun(count, *RUN, *OVER_MPI)["weights_sha256"], wanted)
                buckets = self.train_with_mpirun(count, *RUN, *OVER_MPI, "--bytes-per-pack", "1000")
                self.assertEqual(buckets["weights_sha256"], wanted)

    def kill_rank(self, *options):
        """Kills rank 1 of two during training. Returns mpirun, the other rank's process id, and the time."""
        process = self.start_training(2, *TINY, *ENDLESS, *OVER_MPI, options=options)
        process.wait_for(STEP)
        survivor, victim = self.rank_pids(process, 2)
        os.kill(victim, signal.SIGKILL)
        return process, survivor, time.monotonic()

    def test_a_killed_rank_ends_all(self):
        process, survivor, since = self.kill_rank()
        self.assertNotEqual(process.wait(FOUND_WITHIN + SLACK), 0)
        self.assertFalse(is_there(survivor))
        self.assertTrue(any("signal 9" in line or "/job:worker/task:1" in line for line in process.lines(since)),
                        process.lines(since))

    def test_where_mpirun_lets_the_others_live_the_killed_rank_is_named(self):
        process, survivor, since = self.kill_rank("--enable-recovery")
        process.wait_for("error: .*/job:worker/task:1", FOUND_WITHIN + SLACK, since)
        wait_until(lambda: not is_there(survivor), FOUND_WITHIN + SLACK)
        process.wait(DEADLINE)

    def test_without_mpirun_its_ranks_are_refused(self):
        with unittest.mock.patch.dict(os.environ, OMPI_MCA_orte_tmpdir_base=str(self.folder)):
            workers = self.start(2, *RUN, *OVER_MPI)
        for worker in workers:
            self.assertNotEqual(worker.wait(), 0, worker.lines()[-8:])
        self.assertTrue(any("to MPI" in worker.last_line() for worker in workers), [each.last_line() for each in workers])


if __name__ == "__main__":
    unittest.main()

"""Servers with a replica: either process is killed, stopped, or loses its folder, and the training goes on with every update."""
import shutil
import signal
import time
import unittest

from servers import DEADLINE, LONG, MODES, STEP, STEPS, Cluster, ServersTest

COMPLETE = "has all updates"


class Replicas(ServersTest):
    def start_pair_job(self, workers, *arguments):
        """A job that has made some steps, and whose replica is complete. Nobody starts anything again."""
        self.cluster = Cluster(1, workers, replicas=1)
        self.server = self.start_server(self.cluster, 0)
        self.replica = self.start_replica(self.cluster, 0)
        training = [self.start_trainer(self.cluster, index, *LONG, *arguments) for index in range(workers)]
        self.replica.wait_for(COMPLETE)
        training[0].wait_for(STEP)
        return training

    def kill(self, process):
        self.assertTrue(process.is_running(), "it had ended before it was killed")
        process.signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def expect_end(self, training, server):
        results = [process.result() for process in training]
        self.assertGreaterEqual(results[0]["global_step"], STEPS)
        self.assertGreaterEqual(server.result()["step"], results[0]["global_step"])
        return results

    def test_the_replica_serves_when_the_server_and_its_folder_are_lost(self):
        training = self.start_pair_job(2, *MODES["sync"])
        self.kill(self.server)
        shutil.rmtree(self.state / "ps-0")
        since = time.monotonic()
        training[0].wait_for(STEP, since=since)
        self.expect_end(training, self.replica)

    def test_a_lost_server_costs_no_bit_of_one_workers_training(self):
        _, (wanted,) = self.train_job(1, 1, *LONG)
        self.state = self.folder / "state-hurt"
        training = self.start_pair_job(1)
        self.kill(self.server)
        shutil.rmtree(self.state / "ps-0")
        (result,) = self.expect_end(training, self.replica)
        self.assertEqual(result["weights_sha256"], wanted["weights_sha256"])

    def test_the_server_continues_without_its_replica(self):
        training = self.start_pair_job(1)
        self.kill(self.replica)
        self.expect_end(training, self.server)

    def test_a_server_that_was_stopped_and_replaced_follows_when_it_wakes(self):
        training = self.start_pair_job(1)
        self.server.signal(signal.SIGSTOP)
        self.replica.wait_for("acts from now on")
        since = time.monotonic()
        training[0].wait_for(STEP, since=since)
        self.server.signal(signal.SIGCONT)
        self.server.wait_for("no longer acts")
        self.expect_end(training, self.replica)
        self.assertEqual(self.server.wait(DEADLINE), 0, self.server.lines()[-8:])


if __name__ == "__main__":
    unittest.main()

"""Servers and workers that are killed, stopped and started again: the training goes on, and nothing hangs."""
import os
import signal
import time
import unittest

from servers import LONG, MODES, SLACK, SLOWNESS, STEP, STEPS, Cluster, ServersTest


class Losses(ServersTest):
    def kill(self, process):
        self.assertTrue(process.is_running(), "it had ended before it was killed")
        process.signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def test_a_killed_server_comes_back_with_every_update(self):
        for name, mode in MODES.items():
            with self.subTest(mode=name):
                self.state = self.folder / f"state-{name}"
                cluster, (server,), training = self.at_work(1, 2, *mode)
                self.kill(server)
                since = time.monotonic()
                server = self.start_server(cluster, 0)
                training[0].wait_for(STEP, since=since)
                results = [process.result() for process in training]
                self.assertGreaterEqual(results[0]["global_step"], STEPS)
                self.assertGreaterEqual(server.result()["step"], results[0]["global_step"])

    def test_a_killed_server_costs_no_bit_of_one_workers_training(self):
        _, (wanted,) = self.train_job(2, 1, *LONG)
        self.state = self.folder / "state-hurt"
        cluster, servers, (chief,) = self.at_work(2, 1)
        self.kill(servers[1])
        servers[1] = self.start_server(cluster, 1)
        self.assertEqual(chief.result()["weights_sha256"], wanted["weights_sha256"])
        self.assertEqual([server.wait() for server in servers], [0, 0])

    def test_a_killed_worker_stops_nobody(self):
        for name in ("async", "ssp"):
            with self.subTest(mode=name):
                self.state = self.folder / f"state-{name}"
                _, (server,), training = self.at_work(1, 2, *MODES[name])
                self.kill(training[1])
                self.assertGreaterEqual(training[0].result()["global_step"], STEPS)
                self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_killed_worker_of_synchronous_training_is_replaced(self):
        cluster, (server,), training = self.at_work(1, 2, *MODES["sync"])
        self.kill(training[1])
        again = self.start_trainer(cluster, 1, *LONG, *MODES["sync"])
        self.assertEqual(training[0].result()["global_step"], STEPS)
        self.assertEqual(again.result()["global_step"], STEPS)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_killed_chief_is_replaced_while_the_others_train(self):
        run = ("--model-dir", self.model_dir, "--save-every", "100steps")
        cluster, (server,), (chief, worker) = self.at_work(1, 2, *run)
        self.kill(chief)
        chief = self.start_trainer(cluster, 0, *LONG, *run)
        result = chief.result()
        self.assertGreaterEqual(result["global_step"], STEPS)
        self.assertGreater(result["first_step"], 0)
        self.assertEqual((worker.wait(), server.wait()), (0, 0))
        self.assertTrue((self.model_dir / "weights.safetensors").exists())

    def test_a_worker_that_waits_for_its_server_ends_on_sigterm(self):
        _, (server,), (chief,) = self.at_work(1, 1)
        self.kill(server)
        chief.wait_for("Waiting for the parameter server")
        chief.signal(signal.SIGTERM)
        self.assertEqual(chief.wait(10 * SLOWNESS + SLACK), 75, chief.lines()[-8:])
        self.assertIn("stopped by SIGTERM", chief.last_line())

    def test_a_worker_that_waits_for_the_chief_is_replaced_and_ends_on_sigterm(self):
        cluster = Cluster(1, 2)
        server = self.start_server(cluster, 0)
        worker = self.start_trainer(cluster, 1, *LONG)
        server.wait_for("/job:worker/task:1 has joined as incarnation 1")
        successor = self.start_trainer(cluster, 1, *LONG)
        self.assertEqual(worker.wait(), 1, worker.lines()[-8:])
        self.assertIn("replaced", worker.last_line())
        successor.signal(signal.SIGTERM)
        self.assertEqual(successor.wait(SLACK), 75, successor.lines()[-8:])

    def test_a_server_that_does_not_come_back_is_named(self):
        _, (server,), (chief,) = self.at_work(1, 1, "--server-timeout", "2s")
        self.kill(server)
        self.assertEqual(chief.wait(2 + 10 * SLOWNESS + SLACK), 1, chief.lines()[-8:])
        self.assertIn("parameter server 0", chief.last_line())
        self.assertTrue(os.path.isdir(self.state / "ps-0"))


if __name__ == "__main__":
    unittest.main()

"""Servers and workers that are killed, stopped and started again: the training goes on, and nothing hangs."""
import os
import signal
import time
import unittest

from servers import MODES, SLACK, SLOWNESS, SMALL, STEP, UNEVALUATED, Cluster, ServersTest

STEPS = 600
LONG = (*UNEVALUATED, "--steps", str(STEPS))


class Losses(ServersTest):
    def at_work(self, servers, workers, *arguments):
        """A job that has made some steps."""
        cluster, serving, training = self.start_job(servers, workers, *LONG, *arguments)
        training[0].wait_for(STEP)
        return cluster, serving, training

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
        run = ("--model-dir", self.model_dir, "--save-every", "500steps")
        cluster, (server,), (chief, worker) = self.at_work(1, 2, *run)
        self.kill(chief)
        chief = self.start_trainer(cluster, 0, *LONG, *run)
        result = chief.result()
        self.assertGreaterEqual(result["global_step"], STEPS)
        self.assertGreater(result["first_step"], 0)
        self.assertEqual((worker.wait(), server.wait()), (0, 0))
        self.assertTrue((self.model_dir / "weights.safetensors").exists())

    def test_a_server_that_is_asked_to_end_says_restart_me_and_continues(self):
        cluster, (server,), (chief,) = self.at_work(1, 1)
        self.end_by(server, signal.SIGTERM, 75)
        server = self.start_server(cluster, 0)
        self.assertEqual(chief.result()["steps"], STEPS)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_stopped_job_continues_where_it_was(self):
        run = ("--model-dir", self.model_dir)
        cluster, (server,), (chief,) = self.at_work(1, 1, *run)
        self.end_by(chief, signal.SIGTERM, 75)
        self.end_by(server, signal.SIGTERM, 75)
        self.assertTrue((self.state / "ps-0").is_dir())
        server = self.start_server(cluster, 0)
        chief = self.start_trainer(cluster, 0, *LONG, *run)
        result = chief.result()
        self.assertGreater(result["first_step"], 0)
        self.assertEqual(result["steps"], STEPS)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_worker_that_comes_late_finds_the_chiefs_run_with_resume_never(self):
        run = ("--model-dir", self.model_dir, "--resume", "never")
        cluster = Cluster(1, 2)
        server = self.start_server(cluster, 0)
        chief = self.start_trainer(cluster, 0, *LONG, *run)
        chief.wait_for(STEP)
        worker = self.start_trainer(cluster, 1, *LONG, *run)
        for each in (worker, chief):
            self.assertGreaterEqual(each.result()["global_step"], STEPS)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_chief_that_is_to_start_over_refuses_a_job_in_progress(self):
        run = ("--model-dir", self.model_dir)
        cluster, (server,), (chief,) = self.at_work(1, 1, *run)
        self.end_by(chief, signal.SIGTERM, 75)
        for flag, *more in (("--overwrite", *run), ("--resume", self.model_dir, "--model-dir", self.folder / "other")):
            with self.subTest(flag=flag):
                chief = self.start_trainer(cluster, 0, *LONG, flag, *more)
                self.assertEqual(chief.wait(), 2, chief.lines()[-8:])
                self.assertIn(flag, chief.last_line())
                self.assertIn("in progress", chief.last_line())
        self.assertTrue((self.model_dir / "weights.safetensors").exists(), "it was removed")
        self.assertTrue(server.is_running(), server.lines()[-8:])
        self.end_by(server, signal.SIGTERM, 75)
        server = self.start_server(cluster, 0, "--overwrite")
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, "--steps", "20", "--overwrite", *run)
        result = chief.result()
        self.assertEqual((result["first_step"], result["steps"]), (0, 20))
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_sigterm_in_a_step_that_takes_long_loses_nothing(self):
        batches = 1000
        seconds = self.alone("--strategy", "one_device", *SMALL, *UNEVALUATED, "--steps", "1", "--accumulate", str(batches))["seconds"]
        long_step = ("--steps", "100", "--accumulate", str(int(batches * 8 / seconds)))  # 8 s, and a wait may take 5 s
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, *long_step, "--model-dir", self.model_dir)
        chief.wait_for(STEP)
        self.end_by(chief, signal.SIGTERM, 75)
        self.assertIn("after step 2 of", chief.last_line())
        self.assertTrue((self.model_dir / "weights.safetensors").exists(), "it did not save")
        self.end_by(server, signal.SIGTERM, 75)

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

"""Jobs that are stopped and continued, that start over, and that a worker joins late."""
import os
import pathlib
import signal
import unittest

from servers import LONG, SMALL, STEP, STEPS, UNEVALUATED, Cluster, ServersTest
from workers import wait_until


def processor_seconds(process):
    user, system = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Continuations(ServersTest):
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
        chief.signal(signal.SIGSTOP)  # else it may be done before the worker comes
        worker = self.start_trainer(cluster, 1, *LONG, *run)
        self.assertGreaterEqual(worker.result()["global_step"], STEPS)
        chief.signal(signal.SIGCONT)
        self.assertGreaterEqual(chief.result()["global_step"], STEPS)
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
        long_step = ("--steps", "100", "--accumulate", str(int(batches * 7 / seconds)))  # 7 s, and a wait may take 5 s
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, *long_step, "--model-dir", self.model_dir)
        chief.wait_for(STEP)
        half_a_second_later = processor_seconds(chief) + 0.5  # of work: nothing between two steps takes so long
        wait_until(lambda: processor_seconds(chief) >= half_a_second_later)
        self.end_by(chief, signal.SIGTERM, 75)
        self.assertIn("after step 2 of", chief.last_line())
        self.assertTrue((self.model_dir / "weights.safetensors").exists(), "it did not save")
        self.end_by(server, signal.SIGTERM, 75)


if __name__ == "__main__":
    unittest.main()

"""Trainings below `brigade launch --ps`: each process is restarted alone, and nothing is left."""
import json
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
from launcher import COMMAND, LIMIT, LaunchTest, free_port, processes_with

SMALL = ("--model", "mlp", "--hidden", "16", "--dataset", "synthetic", "--train-examples", "256", "--batch-size", "16",
         "--threads-per-replica", "1", "--allow-oversubscription", "--log-every", "0")


class Launched(LaunchTest):
    def setUp(self):
        super().setUp()
        self.model_dir = self.folder / "run"

    def program(self, *arguments):
        return [COMMAND, "train", "--strategy", "parameter_server", *SMALL, "--model-dir", self.model_dir, *arguments]

    def process_of(self, job, index):
        """The program of this task, not its shim."""
        end = time.monotonic() + LIMIT
        while True:
            for pid in processes_with(self.mark):
                try:
                    text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode()
                    name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                except OSError:
                    continue
                if f'"task": {{"type": "{job}", "index": {index}}}' in text and name == "brigade-core":
                    return pid
            self.assertLess(time.monotonic(), end, f"no process {job}:{index}")
            time.sleep(0.01)

    def test_servers_workers_and_an_evaluator_train_together(self):
        job = self.run_job(["--ps", 2, "--workers", 2, "--evaluator"], self.program("--epochs", "16", "--save-every", "50steps"))
        text = "\n".join(job.output + job.errors)
        for label in ("[worker:0] ", "[ps:0] ", "[ps:1] ", "[evaluator:0] "):
            self.assertIn(label, text)
        accuracy = [float(line.split()[-2]) for line in job.output if line.startswith("[worker:0] test accuracy")]
        self.assertGreater(accuracy[0], 90)
        self.assert_nothing_is_left()

    def test_overwrite_starts_over_with_servers_that_were_stopped(self):
        launch = ["--ps", 1, "--workers", 1, "--ps-folder", self.folder / "servers", "--grace", 30]
        launched = self.start(launch, self.program("--steps", "100000000", "--eval", "none"))
        launched.line("[worker:0] step ")
        launched.send(signal.SIGTERM)
        self.assertEqual(launched.end(), 75, launched.errors_text()[-4000:])
        self.assertTrue((self.folder / "servers" / "ps-0").is_dir(), "the server kept nothing")
        job = self.run_job(launch, self.program("--steps", "20", "--eval", "none", "--overwrite", "--json"))
        result = json.loads(next(line for line in job.output if line.startswith("[worker:0] {")).partition(" ")[2])
        self.assertEqual((result["first_step"], result["steps"], result["worker_steps"]), (0, 20, 20))

    def killed_in_the_middle(self, job, index, *arguments):
        launched = self.start(["--ps", 1, "--workers", 2, "--max-restarts", 3, "--json"],
                              self.program("--steps", "500", "--eval", "none", *arguments))
        launched.line("[worker:0] step ")
        os.kill(self.process_of(job, index), signal.SIGKILL)
        launched.line(f"[warning] {job}:{index} is restarted")
        self.assertEqual(launched.end(), 0, launched.errors_text()[-4000:])
        result = launched.result()
        self.assertEqual((result["exit_code"], result["restarts"]), (0, 1))
        self.assertEqual([failure["task"] for failure in result["failures"]], [f"{job}:{index}"])
        self.assert_nothing_is_left()

    def test_a_killed_server_is_restarted_alone(self):
        self.killed_in_the_middle("ps", 0, "--overwrite")  # not again

    def test_tasks_on_two_hosts_train_together_and_a_killed_server_is_restarted_there(self):
        # On each host, which here is a launcher on this machine, a server and a worker.
        address = f"127.0.0.1:{free_port()}"
        hosts = [self.start(["--nnodes", 2, "--node-rank", index, "--rendezvous", address, "--ps", 2, "--workers", 2, "--max-restarts", 3, "--json"],
                            self.program("--mode", "sync", "--steps", "500", "--eval", "none")) for index in range(2)]
        hosts[0].line("[worker:0] step ")
        os.kill(self.process_of("ps", 1), signal.SIGKILL)
        hosts[1].line("[warning] ps:1 is restarted")
        for host in hosts:
            self.assertEqual(host.end(), 0, host.errors_text()[-4000:])
            self.assertEqual(host.result()["restarts"], 1)
        self.assertEqual([failure["task"] for host in hosts for failure in host.result()["failures"]], ["ps:1"])
        self.assert_nothing_is_left()
        self.assertTrue((self.model_dir / "weights.safetensors").exists(), "the chief did not save")

    def test_the_replica_of_a_killed_server_serves_and_gets_a_replica_again(self):
        launched = self.start(["--ps", 1, "--ps-replicas", 2, "--workers", 2, "--max-restarts", 3, "--json"],
                              self.program("--steps", "800", "--eval", "none"))
        while "has all updates" not in launched.line(""):
            pass
        os.kill(self.process_of("ps", 0), signal.SIGKILL)
        launched.line("[warning] ps:0 is restarted")
        self.assertEqual(launched.end(), 0, launched.errors_text()[-4000:])
        result = launched.result()
        self.assertEqual((result["exit_code"], result["restarts"]), (0, 1))
        self.assertIn("[ps_replica:0] ", launched.errors_text())
        self.assert_nothing_is_left()

    def test_a_killed_worker_is_restarted_alone(self):
        self.killed_in_the_middle("worker", 1, "--resume", "never")

    def test_a_killed_chief_is_restarted_alone(self):
        self.killed_in_the_middle("worker", 0, "--resume", "never")

    def test_sigterm_saves_and_ends_all(self):
        for mode in (("async",), ("ssp", "--staleness", "2"), ("sync",)):
            with self.subTest(mode=mode):
                self.model_dir = self.folder / mode[0]
                launched = self.start(["--ps", 1, "--workers", 2, "--grace", 30],
                                      self.program("--mode", *mode, "--steps", "100000000", "--eval", "none"))
                launched.line("[worker:0] step ")
                launched.send(signal.SIGTERM)
                self.assertEqual(launched.end(), 75, launched.errors_text()[-4000:])
                self.assert_nothing_is_left()
                self.assertTrue((self.model_dir / "weights.safetensors").exists(), "the chief did not save")


if __name__ == "__main__":
    unittest.main()

"""The tutorial's program, examples/parameter_server.cpp, as the tutorial runs it: one parameter server and two workers."""
import json
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import idx_files
from workers import COMMAND, ClusterTest, environment, free_ports

STEPS = 60


class ParameterServerExample(ClusterTest):
    def setUp(self):
        super().setUp()
        self.data = idx_files.write_fashion_mnist(self.folder / "fashion_mnist", train=10_000)
        server, *workers = (f"localhost:{port}" for port in free_ports(3))
        self.cluster = {"ps": [server], "worker": workers}
        self.hosts = (f"--ps_hosts={server}", f"--worker_hosts={','.join(workers)}")

    def task(self, job, index, *flags):
        return self.start_process(f"--job_name={job}", f"--task_index={index}", *self.hosts, f"--data_dir={self.data}", *flags)

    def step_and_losses(self, worker):
        self.assertEqual(worker.wait(), 0, worker.lines() + [worker.output()])
        found = re.search(r"step (\d+), loss ([\d.]+) to ([\d.]+)", worker.output())
        self.assertTrue(found, worker.output())
        return int(found[1]), float(found[2]), float(found[3])

    def test_a_server_and_two_workers_train_together(self):
        flags = (f"--train_dir={self.folder / 'train'}", f"--steps={STEPS}")
        server = self.task("ps", 0)
        workers = {index: self.task("worker", index, *flags) for index in (1, 0)}
        for index, worker in workers.items():
            step, first, last = self.step_and_losses(worker)
            # Each worker stops when it sees the last step; the other may be one step further.
            self.assertIn(step, (STEPS, STEPS + 1))
            # The chief makes the first step; the other may have come when the loss had fallen.
            if index == 0:
                self.assertLess(last, 0.8 * first)
        self.assertEqual(server.wait(), 0, server.lines())
        saved = sorted(path.name for path in (self.folder / "train").glob("ckpt-*"))
        self.assertTrue(saved, "the chief saves")

    def test_tf_config_says_which_task_a_process_is(self):
        # As launchers and schedulers start it; synchronous, and every worker on all of the data.
        tasks = [self.start_process(f"--data_dir={self.data}", "--steps=20", "--mode=sync", "--auto_shard=off",
                                    environment=environment(TF_CONFIG=json.dumps({"cluster": self.cluster, "task": {"type": job, "index": index}})))
                 for job, index in (("ps", 0), ("worker", 0), ("worker", 1))]
        self.assertEqual([self.step_and_losses(worker)[0] for worker in tasks[1:]], [20, 20])
        self.assertEqual(tasks[0].wait(), 0, tasks[0].lines())

    def test_the_launcher_starts_all_tasks(self):
        launcher = self.start_process("launch", "--ps", 1, "--workers", 2, "--grace", 2, "--", COMMAND, f"--data_dir={self.data}", "--steps=20",
                                      program=(os.environ["BRIGADE_LAUNCHER"],))
        self.assertEqual(launcher.wait(), 0, launcher.lines())
        self.assertRegex(launcher.output(), r"\[worker:0\] Worker 0: step 2[01], loss")

    def test_a_training_may_end_with_its_data(self):
        self.data = idx_files.write(self.folder / "data", train=300)
        server = self.task("ps", 0)
        # The chief does not need the other worker, and has all batches: 600 examples by 128.
        chief = self.task("worker", 0, "--epochs=2", "--auto_shard=off")
        self.assertEqual(self.step_and_losses(chief)[0], 5)
        self.assertEqual(server.wait(), 0, server.lines())

    def test_a_later_job_continues_from_the_chiefs_checkpoint(self):
        for steps in (20, 30):
            server = self.task("ps", 0)
            chief = self.task("worker", 0, f"--train_dir={self.folder / 'train'}", f"--steps={steps}")  # it needs no other
            self.assertEqual(chief.wait(), 0, chief.lines())
            self.assertRegex(chief.output(), rf"step {steps},", chief.lines())
            self.assertEqual(server.wait(), 0, server.lines())
        self.assertTrue((self.folder / "train" / "ckpt-30").exists())


if __name__ == "__main__":
    unittest.main()

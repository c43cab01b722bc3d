"""The program with a coordinator, examples/cluster_coordinator.cpp: a chief that schedules steps, one parameter server and two workers,
each a process. Workers and the chief are killed; an error in a function is told once."""
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import idx_files
from workers import DEADLINE, ClusterTest, free_ports, wait_until

EPOCHS, STEPS = 3, 60


class ClusterCoordinatorExample(ClusterTest):
    def setUp(self):
        super().setUp()
        self.data = idx_files.write_fashion_mnist(self.folder / "fashion_mnist", train=10_000, t10k=1000)
        chief, server, *workers = (f"localhost:{port}" for port in free_ports(4))
        self.cluster = f"chief={chief};ps={server};worker={','.join(workers)}"

    def task(self, name, *flags):
        return self.start_process(f"--cluster={self.cluster}", f"--task={name}", f"--data_dir={self.data}", *flags)

    def start_all(self, *flags, epochs=EPOCHS):
        """The chief, its workers and its server. A worker that comes when the chief has ended waits for the next one, so the chief
        is first, and all have to do with the data before the first step."""
        server = self.task("ps:0")
        chief = self.task("chief", f"--epochs={epochs}", f"--steps_per_epoch={STEPS}", *flags)
        chief.wait_for("Coordinator .* listens at")
        return chief, [self.task(f"worker:{index}") for index in range(2)], server

    def epochs(self, chief):
        """[(step, loss, accuracy)] of a chief that has ended well."""
        self.assertEqual(chief.wait(), 0, chief.lines() + [chief.output()])
        found = re.findall(r"^Epoch \d+: step (\d+), loss ([\d.]+), test accuracy ([\d.]+)$", chief.output(), re.MULTILINE)
        return [(int(step), float(loss), float(accuracy)) for step, loss, accuracy in found]

    def assert_ends_well(self, *processes):
        for process in processes:
            self.assertEqual(process.wait(), 0, process.lines()[-8:])

    def kill(self, process):
        self.assertTrue(process.is_running(), "it had ended before it was killed")
        process.signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def wait_for_epoch(self, chief, epoch):
        wait_until(lambda: f"Epoch {epoch}:" in chief.output() or not chief.is_running(), DEADLINE)
        self.assertTrue(chief.is_running(), chief.lines()[-8:] + [chief.output()])

    def test_workers_run_what_the_chief_schedules(self):
        chief, workers, server = self.start_all()
        epochs = self.epochs(chief)
        self.assertEqual([step for step, _, _ in epochs], [STEPS * epoch for epoch in range(1, EPOCHS + 1)])
        self.assertLess(epochs[-1][1], 0.8 * epochs[0][1])
        self.assertGreater(epochs[-1][2], 0.5)
        self.assert_ends_well(*workers, server)

    def test_a_killed_workers_function_is_run_by_another(self):
        chief, workers, _ = self.start_all()  # the server waits for the killed one to return
        self.wait_for_epoch(chief, 1)
        self.kill(workers[1])
        epochs = self.epochs(chief)
        self.assertEqual(len(epochs), EPOCHS)
        # The function that it had is run again, and its push may count twice: as another push.
        self.assertIn(epochs[-1][0], (EPOCHS * STEPS, EPOCHS * STEPS + 1))
        self.assert_ends_well(workers[0])

    def test_a_killed_workers_successor_joins(self):
        chief, workers, server = self.start_all(epochs=8 * EPOCHS)
        self.wait_for_epoch(chief, 1)
        self.kill(workers[1])
        successor = self.task("worker:1")
        chief.wait_for("/job:worker/task:1 has joined as incarnation 2")
        self.assertEqual(len(self.epochs(chief)), 8 * EPOCHS)
        self.assert_ends_well(workers[0], successor, server)

    def test_an_error_is_reported_once_and_the_coordinator_is_used_again(self):
        chief, workers, server = self.start_all("--bad_steps=20")
        epochs = self.epochs(chief)
        self.assertEqual([step for step, _, _ in epochs], [STEPS * epoch for epoch in range(1, EPOCHS + 1)])
        errors = re.findall(r"^An error: .*$", chief.output(), re.MULTILINE)
        self.assertEqual(len(errors), 1, errors)
        for words in ("bad_step", "/job:worker/task:", "This step is a bad one."):
            self.assertIn(words, errors[0])
        self.assert_ends_well(*workers, server)

    def test_a_killed_chief_is_started_again_with_the_servers_values(self):
        chief, workers, server = self.start_all(epochs=1000)
        self.wait_for_epoch(chief, 1)
        self.kill(chief)
        chief = self.task("chief", "--epochs=2", f"--steps_per_epoch={STEPS}")
        epochs = self.epochs(chief)
        # What was scheduled before is lost; what was pushed is not.
        self.assertGreaterEqual(epochs[0][0], 2 * STEPS)
        self.assertGreaterEqual(epochs[1][0], epochs[0][0] + STEPS)
        self.assert_ends_well(*workers, server)

    def test_a_later_job_continues_from_the_chiefs_checkpoint(self):
        for job in (1, 2):  # the servers' folders are new ones
            chief, workers, server = self.start_all(f"--train_dir={self.folder / 'train'}")
            first = (job - 1) * EPOCHS * STEPS
            self.assertEqual([step for step, _, _ in self.epochs(chief)], [first + STEPS * epoch for epoch in range(1, EPOCHS + 1)])
            self.assert_ends_well(*workers, server)
        self.assertTrue((self.folder / "train" / f"ckpt-{2 * EPOCHS * STEPS}").exists())


if __name__ == "__main__":
    unittest.main()

"""A training of several workers of which one is killed: started again, all go on, and end with the weights of the run never
killed, bit for bit."""
import json
import signal
import time
import unittest

from workers import PEER_TIMEOUT, TINY, ClusterTest, wait_until

STEPS = 60
RUN = (*TINY, "--hidden", "64,64", "--train-examples", "512", "--batch-size", "24", "--steps", str(STEPS),
       "--save-every", "10steps", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")


class Resume(ClusterTest):
    wanted = None  # of the run that nobody killed

    def unbroken(self):
        if Resume.wanted is None:
            Resume.wanted = self.train(2, *RUN, "--model-dir", self.folder / "unbroken")
        return Resume.wanted

    def check_goes_on(self, earliest):
        """Starts all again, and compares the end."""
        wanted = self.unbroken()
        result = self.train(2, *RUN, "--model-dir", self.model_dir)
        for key in ("weights_sha256", "steps", "examples", "final_loss"):
            self.assertEqual(result[key], wanted[key], key)
        self.assertGreaterEqual(result["first_step"], earliest)
        left = [each.name for each in (self.model_dir / "checkpoints").iterdir() if each.name.startswith(".")]
        self.assertEqual(left, [])

    def begin(self):
        return self.start(2, *RUN, "--model-dir", self.model_dir)

    def kill(self, workers, victim):
        workers[victim].signal(signal.SIGKILL)
        took = self.assert_name([workers[1 - victim]], victim, time.monotonic())
        print(f"{self.id().split('.')[-1]}: the other had ended after {took:.2f} s", flush=True)

    def in_a_step(self, victim):
        workers = self.begin()
        workers[0].wait_for(r"^step 2\d/")
        self.kill(workers, victim)
        self.check_goes_on(earliest=10)

    def test_after_the_worker_was_killed_in_a_step(self):
        self.in_a_step(1)

    def test_after_the_chief_was_killed_in_a_step(self):
        self.in_a_step(0)

    def in_a_save(self, victim):
        workers = self.begin()
        folder = self.model_dir / "checkpoints"
        wait_until(lambda: list(folder.glob(".ckpt-[1-9]*")) or not workers[0].is_running(), pause=0.0002)
        self.assertTrue(workers[0].is_running(), workers[0].lines()[-8:])
        self.kill(workers, victim)
        self.check_goes_on(earliest=0)

    def test_after_the_worker_was_killed_in_a_save(self):
        self.in_a_save(1)

    def test_after_the_chief_was_killed_in_a_save(self):
        self.in_a_save(0)

    def test_after_the_worker_was_killed_in_the_start(self):
        workers = self.begin()
        workers[0].wait_for(r"^training ")
        workers[1].signal(signal.SIGKILL)
        since = time.monotonic()
        self.assert_name([workers[0]], 1, since)
        self.check_goes_on(earliest=0)

    def test_a_finished_run_is_told_by_the_chief_alone(self):
        wanted = self.train(2, *RUN, "--model-dir", self.model_dir)
        again = self.train(2, *RUN, "--model-dir", self.model_dir)
        self.assertEqual(again["weights_sha256"], wanted["weights_sha256"])
        held = json.loads((self.model_dir / "run.json").read_text())
        self.assertEqual(held["result"]["weights_sha256"], wanted["weights_sha256"])


if __name__ == "__main__":
    unittest.main()

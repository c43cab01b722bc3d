"""A training of several workers of which one is killed: started again, all go on, and end with the weights of the run never
killed, bit for bit."""
import json
import signal
import time
import unittest

from workers import PEER_TIMEOUT, TINY, ClusterTest, free_ports, wait_until

STEPS = 60
RUN = (*TINY, "--hidden", "64,64", "--train-examples", "512", "--batch-size", "24", "--steps", str(STEPS),
       "--save-every", "10steps", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")


ALL_WRITE = ("--checkpoint-writers", "all")


class Resume(ClusterTest):
    wanted = None  # of the run that nobody killed, whose chief wrote alone
    flags = ()

    def unbroken(self):
        if Resume.wanted is None:
            Resume.wanted = self.train(2, *RUN, "--model-dir", self.folder / "unbroken")
        return Resume.wanted

    def check_goes_on(self, earliest):
        """Starts all again, and compares the end."""
        wanted = self.unbroken()
        result = self.train(2, *RUN, *self.flags, "--model-dir", self.model_dir)
        for key in ("weights_sha256", "steps", "examples", "final_loss"):
            self.assertEqual(result[key], wanted[key], key)
        self.assertGreaterEqual(result["first_step"], earliest)
        left = [each.name for each in (self.model_dir / "checkpoints").iterdir() if each.name.startswith(".")]
        self.assertEqual(left, [])

    def begin(self):
        return self.start(2, *RUN, *self.flags, "--model-dir", self.model_dir)

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

    def test_after_the_worker_was_killed_in_a_save_of_all(self):
        self.flags = ALL_WRITE
        self.in_a_save(1)

    def test_after_the_chief_was_killed_in_a_save_of_all(self):
        self.flags = ALL_WRITE
        self.in_a_save(0)

    def test_after_the_worker_was_killed_in_the_start(self):
        workers = self.begin()
        workers[0].wait_for(r"^training ")
        workers[1].signal(signal.SIGKILL)
        since = time.monotonic()
        self.assert_name([workers[0]], 1, since)
        self.check_goes_on(earliest=0)

    def test_a_finished_run_is_reported_by_the_chief_alone(self):
        wanted = self.train(2, *RUN, "--model-dir", self.model_dir)
        again = self.train(2, *RUN, "--model-dir", self.model_dir)
        self.assertEqual(again["weights_sha256"], wanted["weights_sha256"])
        held = json.loads((self.model_dir / "run.json").read_text())
        self.assertEqual(held["result"]["weights_sha256"], wanted["weights_sha256"])


class AllWrite(ClusterTest):
    """Checkpoints of which every worker writes its share."""

    def files_of(self, model_dir, step):
        return sorted(each.name for each in (model_dir / "checkpoints" / f"ckpt-{step}").glob("*.safetensors"))

    def test_they_hold_what_the_chief_alone_writes(self):
        alone = self.folder / "alone"
        wanted = self.train(2, *RUN, "--model-dir", alone)
        result = self.train(2, *RUN, *ALL_WRITE, "--model-dir", self.model_dir)
        self.assertEqual(result["weights_sha256"], wanted["weights_sha256"])
        names = self.files_of(self.model_dir, STEPS)
        for section in ("variables", "tensors"):
            for number in (1, 2):
                self.assertIn(f"{section}-0000{number}-of-00002.safetensors", names)
        self.assertNotEqual(names, self.files_of(alone, STEPS))
        compared = self.start_process("inspect", "--json", *(each / "checkpoints" / f"ckpt-{STEPS}"
                                                             for each in (alone, self.model_dir))).result()
        self.assertTrue(compared["equal"], compared)

    def test_three_workers_stopped_and_started_with_two(self):
        self.train(3, *RUN, *ALL_WRITE, "--batch-size", "16", "--steps", "30", "--model-dir", self.model_dir)
        self.assertIn("variables-00003-of-00003.safetensors", self.files_of(self.model_dir, 30))
        result = self.train(2, *RUN, *ALL_WRITE, "--model-dir", self.model_dir)
        self.assertEqual(result["first_step"], 30)
        self.assertIn("variables-00002-of-00002.safetensors", self.files_of(self.model_dir, STEPS))

    def test_a_worker_that_does_not_see_the_folder_is_written_for(self):
        ports = free_ports(2)
        dirs = (self.model_dir, self.folder / "elsewhere")
        workers = [self.start_worker(ports, index, *RUN, *ALL_WRITE, "--model-dir", each) for index, each in enumerate(dirs)]
        workers[0].result()
        self.assertEqual(workers[1].wait(), 0, workers[1].lines()[-8:])
        told = [line for line in workers[0].lines() if "writes no part of checkpoints" in line]
        self.assertEqual(len(told), 1, workers[0].lines())
        self.assertIn("/job:worker/task:1", told[0])
        self.assertIn("does not see the folder", told[0])
        self.assertIn("variables-00002-of-00002.safetensors", self.files_of(self.model_dir, STEPS))


if __name__ == "__main__":
    unittest.main()

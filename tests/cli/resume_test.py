"""Runs that are killed or stopped and then resumed end with the weights of an uninterrupted run, bit for bit."""
import json
import os
import shutil
import signal
import time
import unittest

from brigade_process import DEADLINE, MLP, SMALL, TWO_REPLICAS, CommandTest, run, started

LONG = ("--epochs", "12", "--eval", "none", "--json", "--shuffle-buffer", "100")
CNN = ("--model", "mnist_cnn", *SMALL, "--train-examples", "64", "--dropout", "0.5", "--epochs", "3", "--eval", "none", "--json")


class Resume(CommandTest):
    def unbroken(self, *arguments):
        return self.succeed("train", *arguments, "--model-dir", self.folder / "unbroken")

    def wait_for_checkpoint(self, process, beyond):
        """Waits until a checkpoint after step `beyond` is complete."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and process.poll() is None:
            found = os.listdir(self.model_dir / "checkpoints") if (self.model_dir / "checkpoints").exists() else []
            if any(name.startswith("ckpt-") and int(name[5:]) > beyond for name in found):
                return
            time.sleep(0.002)  # only to look again; nothing depends on its length

    def test_a_killed_run_resumes_bit_for_bit(self):
        for command in ((*MLP, *LONG), (*MLP, *TWO_REPLICAS, *LONG, "--augment", "random_crop"), (*CNN, *TWO_REPLICAS)):
            with self.subTest(command=command):
                wanted = self.unbroken(*command, "--overwrite")
                self.model_dir = self.folder / f"run{hash(command)}"
                saving = (*command, "--save-every", "1step", "--model-dir", self.model_dir)
                for kill in range(3):
                    with started("train", *saving) as process:
                        self.wait_for_checkpoint(process, kill)
                        process.kill()
                report = self.succeed("train", *saving)
                self.assertEqual(report["weights_sha256"], wanted["weights_sha256"])
                self.assertEqual((report["steps"], report["examples"]), (wanted["steps"], wanted["examples"]))

    def test_a_stopped_run_says_75_and_resumes(self):
        command = (*MLP, *LONG, "--epochs", "2000", "--model-dir", self.model_dir)
        with started("train", *command, "--save-every", "5steps") as process:
            self.wait_for_checkpoint(process, 4)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 75)
        with started("train", *command) as process:
            line = process.stderr.readline()
            while line and "resuming from step" not in line:
                line = process.stderr.readline()
            self.assertIn("resuming from step", line)

    def test_a_broken_newest_checkpoint_is_passed_over(self):
        command = (*MLP, *LONG, "--save-every", "10steps", "--model-dir", self.model_dir)
        wanted = self.succeed("train", *command)
        newest = max((self.model_dir / "checkpoints").glob("ckpt-*"), key=lambda path: int(path.name[5:]))
        tensors = next(newest.glob("*.safetensors"))
        tensors.write_bytes(tensors.read_bytes()[:-7])
        (self.model_dir / "weights.safetensors").unlink()  # so that the run is not finished
        result = run("train", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(newest.name, result.stderr)
        self.assertIn(wanted["weights_sha256"], result.stdout)

    def test_another_configuration_is_refused(self):
        self.succeed("train", *MLP, *LONG, "--model-dir", self.model_dir)
        self.refuse("train", *MLP, *LONG, "--learning-rate", "0.5", "--model-dir", self.model_dir,
                    saying=["learning_rate", "0.5", "--overwrite"])

    def test_another_number_of_replicas_resumes(self):
        base = ("train", "--model", "mlp", "--dataset", "synthetic", "--train-examples", "256", "--global-batch-size", "16",
                "--eval", "none", "--json", "--model-dir", self.model_dir)
        self.succeed(*base, "--steps", "10")
        report = self.succeed(*base, *TWO_REPLICAS, "--steps", "20")
        self.assertEqual((report["first_step"], report["steps"], report["replicas"]), (10, 20, 2))

    def test_a_finished_run_makes_no_extra_step(self):
        command = ("train", *MLP, "--steps", "7", "--eval", "none", "--json", "--model-dir", self.model_dir)
        first = self.succeed(*command)
        before = (self.model_dir / "run.json").read_text()
        again = run(*command)
        self.assertEqual((again.returncode, json.loads(again.stdout)), (0, first))
        self.assertRegex(again.stderr, r"\Abrigade: the run in .* is finished, after step 7; .*--steps.*--overwrite\n\Z")
        self.assertEqual((self.model_dir / "run.json").read_text(), before)

    def test_a_run_that_was_killed_after_its_last_step_makes_no_extra_step(self):
        command = ("train", *MLP, "--steps", "7", "--eval", "none", "--json", "--model-dir", self.model_dir)
        first = self.succeed(*command)
        stored = json.loads((self.model_dir / "run.json").read_text())
        (self.model_dir / "run.json").write_text(json.dumps({**stored, "result": None}))
        again = self.succeed(*command)
        self.assertEqual((again["first_step"], again["steps"], again["weights_sha256"]), (7, 7, first["weights_sha256"]))

    def test_a_finished_run_resumes_with_more(self):
        for shorter, longer in ((("--steps", "7"), ("--steps", "20")), (("--epochs", "1"), ("--epochs", "3"))):
            with self.subTest(longer=longer):
                base = ("train", *MLP, "--eval", "none", "--json", "--model-dir")
                wanted = self.succeed(*base, self.folder / longer[0], *longer)
                self.succeed(*base, self.folder / shorter[0][2:], *shorter)
                report = self.succeed(*base, self.folder / shorter[0][2:], *longer)
                self.assertGreater(report["first_step"], 0)
                self.assertEqual((report["steps"], report["examples"], report["weights_sha256"]),
                                 (wanted["steps"], wanted["examples"], wanted["weights_sha256"]))

    def test_more_epochs_after_an_uneven_end_begin_where_a_whole_batch_would_have_ended(self):
        base = ("train", *MLP, "--train-examples", "67", "--eval", "none", "--json", "--model-dir", self.model_dir)
        self.succeed(*base, "--epochs", "1")  # four batches of 16, and one of 3
        report = self.succeed(*base, "--epochs", "2")
        self.assertEqual((report["first_step"], report["steps"], report["examples"]), (5, 9, 67 + 2 * 67 - 5 * 16))
        again = self.succeed(*base, "--epochs", "2")
        self.assertEqual((again["steps"], again["weights_sha256"]), (9, report["weights_sha256"]))


class SaveEvery(CommandTest):
    def steps_kept(self, *arguments):
        self.succeed("train", *MLP, "--steps", "10", "--eval", "none", "--json", "--model-dir", self.model_dir, *arguments)
        return sorted(int(path.name[5:]) for path in (self.model_dir / "checkpoints").glob("ckpt-*"))

    def test_steps(self):
        self.assertEqual(self.steps_kept("--save-every", "4steps"), [0, 4, 8, 10])

    def test_a_long_time_alone(self):
        self.assertEqual(self.steps_kept("--save-every", "2h"), [0, 10])

    def test_both_given_twice(self):
        self.assertEqual(self.steps_kept("--save-every", "2h", "--save-every", "6steps"), [0, 6, 10])

    def test_the_newest_are_kept(self):
        self.assertEqual(self.steps_kept("--save-every", "1step", "--keep-last", "2"), [9, 10])

    def test_all_are_kept(self):
        self.assertEqual(self.steps_kept("--save-every", "1step", "--keep-last", "0"), list(range(11)))


class ResumePath(CommandTest):
    """A run that starts from another run's checkpoint."""

    BASE = ("train", *MLP, *TWO_REPLICAS, "--augment", "random_crop", "--eval", "none", "--json")

    def setUp(self):
        super().setUp()
        self.other = self.folder / "other"
        self.wanted = self.succeed(*self.BASE, "--steps", "12", "--save-every", "5steps", "--model-dir", self.other)
        self.checkpoint = self.other / "checkpoints" / "ckpt-5"

    def test_ends_as_the_unbroken_one(self):
        for path in (self.checkpoint, self.checkpoint / "manifest.json"):
            for place in ((), ("--model-dir", self.folder / f"from-{path.name}")):
                with self.subTest(path=path, place=place):
                    report = self.succeed(*self.BASE, "--steps", "12", "--resume", path, *place)
                    self.assertEqual((report["first_step"], report["steps"], report["examples"]),
                                     (5, 12, self.wanted["examples"]))
                    self.assertEqual(report["weights_sha256"], self.wanted["weights_sha256"])

    def test_a_model_directory_gives_its_newest(self):
        longer = self.succeed(*self.BASE, "--steps", "15")
        report = self.succeed(*self.BASE, "--steps", "15", "--resume", self.other, "--model-dir", self.model_dir)
        self.assertEqual((report["first_step"], report["weights_sha256"]), (12, longer["weights_sha256"]))
        self.assertEqual(report["started_from"], str(self.other.resolve()))

    def test_the_same_command_again_resumes_its_own(self):
        command = (*self.BASE, "--resume", self.checkpoint, "--model-dir", self.model_dir)
        self.succeed(*command, "--steps", "8")
        shutil.rmtree(self.other)
        report = self.succeed(*command, "--steps", "12")
        self.assertEqual((report["first_step"], report["weights_sha256"]), (8, self.wanted["weights_sha256"]))
        without = self.succeed(*self.BASE, "--model-dir", self.model_dir, "--steps", "12")
        self.assertEqual(without, report)

    def test_killed_before_its_first_checkpoint_it_begins_there_again(self):
        command = (*self.BASE, "--model-dir", self.model_dir)
        self.succeed(*command, "--resume", self.checkpoint, "--steps", "6")
        shutil.rmtree(self.model_dir / "checkpoints")
        stored = json.loads((self.model_dir / "run.json").read_text())
        (self.model_dir / "run.json").write_text(json.dumps({**stored, "result": None}))
        report = self.succeed(*command, "--steps", "12")
        self.assertEqual((report["first_step"], report["weights_sha256"]), (5, self.wanted["weights_sha256"]))

    def test_another_learning_rate_is_taken(self):
        report = self.succeed(*self.BASE, "--steps", "12", "--resume", self.checkpoint, "--learning-rate", "0.5")
        self.assertEqual(report["first_step"], 5)
        self.assertNotEqual(report["weights_sha256"], self.wanted["weights_sha256"])


if __name__ == "__main__":
    unittest.main()

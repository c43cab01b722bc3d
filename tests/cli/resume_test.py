"""Runs that are killed or stopped, and go on: with the weights that the unbroken run has, bit for bit."""
import os
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
        """Until a checkpoint behind step `beyond` is whole."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and process.poll() is None:
            found = os.listdir(self.model_dir / "checkpoints") if (self.model_dir / "checkpoints").exists() else []
            if any(name.startswith("ckpt-") and int(name[5:]) > beyond for name in found):
                return
            time.sleep(0.002)  # only to look again; nothing depends on its length

    def test_a_killed_run_goes_on_bit_for_bit(self):
        for command in ((*MLP, *LONG), (*MLP, *TWO_REPLICAS, *LONG, "--augment", "random_crop"), (*CNN, *TWO_REPLICAS)):
            with self.subTest(command=command):
                wanted = self.unbroken(*command, "--overwrite")
                self.model_dir = self.folder / f"run{hash(command)}"
                saving = (*command, "--save-checkpoints-steps", "1", "--model-dir", self.model_dir)
                for kill in range(3):
                    with started("train", *saving) as process:
                        self.wait_for_checkpoint(process, kill)
                        process.kill()
                report = self.succeed("train", *saving, "--resume")
                self.assertEqual(report["weights_sha256"], wanted["weights_sha256"])
                self.assertEqual((report["steps"], report["examples"]), (wanted["steps"], wanted["examples"]))

    def test_a_stopped_run_says_75_and_goes_on(self):
        command = (*MLP, *LONG, "--epochs", "2000", "--model-dir", self.model_dir)
        with started("train", *command, "--save-checkpoints-steps", "5") as process:
            self.wait_for_checkpoint(process, 4)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 75)
        with started("train", *command) as process:
            line = process.stderr.readline()
            while line and "going on from step" not in line:
                line = process.stderr.readline()
            self.assertIn("going on from step", line)

    def test_a_broken_newest_checkpoint_is_passed_over(self):
        command = (*MLP, *LONG, "--save-checkpoints-steps", "10", "--model-dir", self.model_dir)
        wanted = self.succeed("train", *command)
        newest = max((self.model_dir / "checkpoints").glob("ckpt-*"), key=lambda path: int(path.name[5:]))
        tensors = next(newest.glob("*.safetensors"))
        tensors.write_bytes(tensors.read_bytes()[:-7])
        result = run("train", *command, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(newest.name, result.stderr)
        self.assertIn(wanted["weights_sha256"], result.stdout)

    def test_another_configuration_is_refused(self):
        self.succeed("train", *MLP, *LONG, "--model-dir", self.model_dir)
        self.refuse("train", *MLP, *LONG, "--learning-rate", "0.5", "--resume", "--model-dir", self.model_dir,
                    saying=["learning_rate", "0.5", "--overwrite"])

    def test_another_number_of_replicas_goes_on(self):
        base = ("train", "--model", "mlp", "--dataset", "synthetic", "--train-examples", "256", "--global-batch-size", "16",
                "--eval", "none", "--json", "--model-dir", self.model_dir)
        self.succeed(*base, "--steps", "10")
        report = self.succeed(*base, *TWO_REPLICAS, "--steps", "20", "--resume")
        self.assertEqual((report["first_step"], report["steps"], report["replicas"]), (10, 20, 2))

    def test_a_finished_run_makes_no_extra_step(self):
        command = ("train", *MLP, "--steps", "7", "--eval", "none", "--json", "--model-dir", self.model_dir)
        first = self.succeed(*command)
        again = self.succeed(*command, "--resume")
        self.assertEqual((again["first_step"], again["steps"]), (7, 7))
        self.assertEqual(again["weights_sha256"], first["weights_sha256"])


if __name__ == "__main__":
    unittest.main()

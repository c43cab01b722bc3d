"""What the commands write: reports, files, help."""
import json
import os
import pty
import resource
import subprocess
import unittest

from brigade_process import COMMAND, DEADLINE, MLP, SLOWNESS, TWO_REPLICAS, CommandTest, run

KEYS = {"model", "strategy", "replicas", "devices", "steps", "examples", "examples_per_second", "seconds", "final_loss",
        "eval_accuracy", "eval_loss", "weights_sha256", "tuning", "interrupted"}


class Train(CommandTest):
    def test_reports_one_object_and_saves_the_run(self):
        result = run("train", *MLP, "--epochs", "8", "--model-dir", self.model_dir, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1)
        report = json.loads(result.stdout)
        self.assertLessEqual(KEYS, report.keys())
        self.assertEqual((report["steps"], report["examples"]), (8 * 16, 8 * 256))
        self.assertGreater(report["eval_accuracy"], 0.9)
        self.assertFalse(report["interrupted"])
        files = sorted(name.split(".tfevents.")[0] for name in os.listdir(self.model_dir))
        self.assertEqual(files, ["checkpoints", "events.out", "run.json", "weights.safetensors"])
        stored = json.loads((self.model_dir / "run.json").read_text())
        self.assertEqual(stored["result"]["weights_sha256"], report["weights_sha256"])
        self.assertEqual(stored["configuration"]["model"], "mlp")

    def test_an_uneven_end_loses_no_example(self):
        report = self.succeed("train", *MLP, *TWO_REPLICAS, "--train-examples", "67", "--epochs", "1", "--json")
        self.assertEqual((report["steps"], report["examples"], report["replicas"]), (3, 67, 2))

    def test_steps_continue_after_the_end_of_the_data(self):
        report = self.succeed("train", *MLP, "--train-examples", "40", "--steps", "7", "--eval", "none", "--json")
        self.assertEqual((report["steps"], report["examples"]), (7, 7 * 16))
        self.assertIsNone(report["eval_accuracy"])

    def test_a_global_batch_is_shared_by_the_replicas(self):
        report = self.succeed("train", "--model", "mlp", "--dataset", "synthetic", *TWO_REPLICAS, "--global-batch-size", "10",
                              "--steps", "3", "--eval", "none", "--json")
        self.assertEqual(report["examples"], 30)

    def test_optimizers_and_their_options(self):
        def trained(*flags):
            return self.succeed("train", *MLP, *TWO_REPLICAS, "--steps", "4", "--eval", "none", "--json", "--optimizer", *flags)

        inception = trained("rmsprop", "--learning-rate", "0.05", "--momentum", "0.9", "--epsilon", "1")
        self.assertEqual((inception["optimizer"], inception["momentum"]), ("rmsprop", 0.9))
        centered = trained("rmsprop", "--learning-rate", "0.05", "--momentum", "0.9", "--epsilon", "1", "--rmsprop-centered")
        self.assertNotEqual(centered["weights_sha256"], inception["weights_sha256"])
        adam = trained("adam")
        for flag, value in (("--beta1", "0.5"), ("--beta2", "0.99")):
            self.assertNotEqual(trained("adam", flag, value)["weights_sha256"], adam["weights_sha256"])
        lars = trained("lars")
        self.assertEqual((lars["learning_rate"], lars["momentum"], lars["weight_decay"]), (1, 0.9, 1e-4))
        self.assertNotEqual(trained("lars", "--trust-coefficient", "0.01")["weights_sha256"], lars["weights_sha256"])

    def test_writes_plain_lines_to_a_pipe(self):
        result = run("train", *MLP, "--steps", "3", "--eval", "none", "--log-every", "0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("\r", result.stderr)
        self.assertRegex(result.stderr, r"step 1/3  \d+ examples/s  loss \d+\.\d{4}  left \d:\d\d\n")
        self.assertIn("weights sha256", result.stdout)

    def test_rewrites_one_line_on_a_terminal(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error:  # a container without /dev/pts
            self.skipTest(f"no terminal to be had here: {error}")
        try:
            result = subprocess.run([COMMAND, "train", *MLP, "--steps", "3", "--eval", "none", "--log-every", "0"],
                                    stdout=subprocess.DEVNULL, stderr=theirs, stdin=subprocess.DEVNULL, timeout=DEADLINE)
            text = os.read(ours, 65536).decode()
        finally:
            os.close(ours)
            os.close(theirs)
        self.assertEqual(result.returncode, 0)
        self.assertIn("\rstep 2/3", text)


class Evaluate(CommandTest):
    def test_gives_what_the_training_gave(self):
        trained = self.succeed("train", *MLP, "--epochs", "2", "--model-dir", self.model_dir, "--json")
        for strategy in ((), TWO_REPLICAS):
            with self.subTest(strategy=strategy):
                report = self.succeed("evaluate", *MLP, *strategy, "--model-dir", self.model_dir, "--json")
                self.assertEqual(report["eval_accuracy"], trained["eval_accuracy"])
                self.assertAlmostEqual(report["eval_loss"], trained["eval_loss"], places=5)
                self.assertEqual(report["weights_sha256"], trained["weights_sha256"])
                self.assertEqual(report["examples"], trained["eval_examples"])

    def test_takes_from_the_run_what_no_flag_says(self):
        shape = ("--model", "mlp", "--hidden", "20,10", "--dataset", "synthetic", "--train-examples", "300")
        trained = self.succeed("train", *shape, "--epochs", "2", "--model-dir", self.model_dir, "--json")
        for flags in ((), ("--model", "mlp"), ("--train-examples", "300"), shape):
            with self.subTest(flags=flags):
                report = self.succeed("evaluate", *flags, "--model-dir", self.model_dir, "--json")
                self.assertEqual((report["eval_accuracy"], report["weights_sha256"]),
                                 (trained["eval_accuracy"], trained["weights_sha256"]))
        other = self.succeed("evaluate", "--train-examples", "200", "--model-dir", self.model_dir, "--json")
        self.assertNotEqual(other["eval_loss"], trained["eval_loss"])
        self.refuse("evaluate", "--hidden", "20,20", "--model-dir", self.model_dir, saying=["dense2.weight"])

    def test_prints_for_people(self):
        self.succeed("train", *MLP, "--steps", "2", "--model-dir", self.model_dir, "--eval", "none", "--json")
        result = run("evaluate", *MLP, "--model-dir", self.model_dir)
        self.assertRegex(result.stdout, r"^test accuracy +\d+\.\d\d %\n")


class Bench(CommandTest):
    def test_reports_speed_and_memory(self):
        report = self.succeed("bench", "--model", "mlp", *TWO_REPLICAS, "--batch-size", "32", "--steps", "8", "--json")
        self.assertEqual((report["replicas"], report["global_batch_size"], report["steps"]), (2, 64, 8))
        self.assertGreater(report["images_per_second"], 0)
        self.assertLessEqual(report["milliseconds_per_step_median"], report["milliseconds_per_step_p90"])
        self.assertGreater(report["peak_memory_bytes"], 10_000_000)


class Devices(CommandTest):
    def test_table_and_json_name_the_same_devices(self):
        report = self.succeed("devices", "--json")
        self.assertGreaterEqual(len(report["devices"]), 1)
        self.assertLessEqual({"processor", "usable_cores", "memory_bytes", "cuda_built"}, report.keys())
        table = run("devices").stdout
        for device in report["devices"]:
            for key in ("name", "tensorflow_name", "torch_device"):
                self.assertIn(device[key], table)

    def test_says_who_reaches_whose_memory(self):
        report = self.succeed("devices", "--json")
        memories = list(dict.fromkeys(device["torch_device"] for device in report["devices"]))
        reach = report["reach"]
        self.assertEqual(list(reach), memories)
        for memory, row in reach.items():
            self.assertEqual(list(row), memories)
            self.assertEqual(row[memory], "same")
            self.assertLessEqual({way for other, way in row.items() if other != memory}, {"peer", "host"})
        table = run("devices").stdout
        if memories == ["cpu"]:
            self.assertRegex(table, r"(?m)^reach +all devices share one memory$")
        else:
            self.assertRegex(table, r"(?m)^REACHES +" + " +".join(memories) + "$")


class Failures(CommandTest):
    """Failures after the work has begun: one line, exit 1."""

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([COMMAND, "devices", "--json"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=DEADLINE)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "brigade: error: standard output cannot be written: No space left on device\n")

    def test_output_that_is_closed_or_full_whatever_is_said(self):
        for words in ("--version", "train --help", "devices", f"train {' '.join(MLP)} --steps 1 --eval none --json"):
            for redirection in (">&-", ">/dev/full"):
                with self.subTest(words=words, redirection=redirection):
                    result = subprocess.run(["/bin/sh", "-c", f'exec "$0" {words} {redirection}', COMMAND], text=True,
                                            stderr=subprocess.PIPE, timeout=DEADLINE)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn("brigade: error: standard output cannot be written", result.stderr.splitlines()[-1])

    def test_weights_that_cannot_be_saved(self):
        limit = 64 * 1024  # enough for run.json, too little for a checkpoint
        result = subprocess.run([COMMAND, "train", *MLP, "--steps", "1", "--eval", "none", "--model-dir", self.model_dir],
                                capture_output=True, text=True, timeout=DEADLINE,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("variables-00001-of-00001.safetensors", result.stderr.splitlines()[-1])
        self.assertTrue(result.stderr.splitlines()[-1].startswith("brigade: error: "))
        self.assertNotIn("weights.safetensors", os.listdir(self.model_dir))
        self.assertNotIn("ckpt-1", os.listdir(self.model_dir / "checkpoints"))

    def test_a_loss_that_is_not_finite_is_null_and_warned_of(self):
        result = run("train", *MLP, "--optimizer", "sgd", "--learning-rate", "1e30", "--steps", "6", "--eval", "none",
                     "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNone(json.loads(result.stdout)["final_loss"])
        self.assertIn("warning: the loss is not finite", result.stderr)


class Help(CommandTest):
    def test_every_command_shows_examples(self):
        for command in ((), ("train",), ("ps",), ("evaluate",), ("bench",), ("devices",)):
            with self.subTest(command=command):
                result = run(*command, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn("Examples:\n  brigade", result.stdout)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^brigade \d+\.\d+\.\d+, libtorch \d")

    @unittest.skipIf(SLOWNESS > 1, "a sanitizer's reports are made by static destructors")
    def test_a_short_command_does_not_wait_for_static_destructors(self):
        result = subprocess.run([COMMAND, "--version"], env={**os.environ, "LD_DEBUG": "files"}, capture_output=True, text=True,
                                timeout=DEADLINE)
        self.assertEqual(result.returncode, 0)
        self.assertIn("libtorch_cpu.so", result.stderr)
        self.assertNotIn("calling fini", result.stderr)


if __name__ == "__main__":
    unittest.main()

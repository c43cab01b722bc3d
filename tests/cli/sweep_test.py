"""`brigade sweep`: trials equal trainings alone; its table, its model directories, what it refuses, signals."""
import json
import signal
import unittest

from brigade_process import COMMAND, DEADLINE, FRONT, MLP, CommandTest, run, started

TWO_DEVICES = ("--devices", "cpu:0,cpu:1", "--allow-oversubscription")
RATES = ("--param", "learning_rate=0.1,0.01,0.001")


class Sweep(CommandTest):
    def alone(self, *arguments):
        return self.succeed("train", *MLP, *arguments, "--json")

    def test_every_trial_has_the_weights_of_its_training_alone(self):
        report = self.succeed("sweep", *MLP, *RATES, "--epochs", "2", *TWO_DEVICES, "--json")
        self.assertEqual(report["devices"], ["cpu:0", "cpu:1"])
        self.assertEqual([row["parameters"] for row in report["trials"]],
                         [{"learning_rate": rate} for rate in (0.1, 0.01, 0.001)])
        for row in report["trials"]:
            alone = self.alone("--epochs", "2", "--learning-rate", row["parameters"]["learning_rate"])
            for key in ("weights_sha256", "steps", "examples", "final_loss", "eval_accuracy", "eval_loss"):
                self.assertEqual(row[key], alone[key], key)
            self.assertEqual((row["status"], row["reason"], row["model_dir"]), ("completed", None, None))
        self.assertEqual(len({row["weights_sha256"] for row in report["trials"]}), 3)
        best = max(report["trials"], key=lambda row: row["eval_accuracy"])
        self.assertEqual(report["trials"][report["best"]]["eval_accuracy"], best["eval_accuracy"])
        self.assertEqual((report["failed"], report["interrupted"]), (0, False))

    def test_shared_data_processes_and_the_usual_way_give_the_same_table(self):
        def table(*flags):
            report = self.succeed("sweep", *MLP, *RATES, "--augment", "random_crop", "--epochs", "2", *TWO_DEVICES, *flags, "--json")
            keys = ("trial", "parameters", "status", "steps", "final_loss", "eval_accuracy", "weights_sha256")
            return [{key: row[key] for key in keys} for row in report["trials"]], report["shared_examples"]

        usual, none = table()
        shared, examples = table("--share-data")
        self.assertEqual(shared, usual)
        self.assertEqual((none, examples), (None, 2 * 2 * 256))  # two groups of trials, two epochs
        self.assertEqual(table("--processes")[0], usual)

    def test_independent_launched_trainings_have_the_results_of_the_table(self):
        report = self.succeed("sweep", *MLP, *RATES, "--epochs", "2", *TWO_DEVICES, "--json")
        lines = self.folder / "rates.txt"
        lines.write_text("".join(f"--learning-rate {row['parameters']['learning_rate']}\n" for row in report["trials"]))
        launched = run("launch", "--independent", "--per-rank", lines, "--prefix", "none", "--", FRONT, "train", *MLP, "--epochs", "2",
                       "--allow-oversubscription", "--json", program=FRONT)
        self.assertEqual(launched.returncode, 0, launched.stderr)
        results = {result["learning_rate"]: result for result in map(json.loads, launched.stdout.splitlines())}
        self.assertEqual(len(results), len(report["trials"]))
        for row in report["trials"]:
            result = results[row["parameters"]["learning_rate"]]
            for key in ("weights_sha256", "steps", "examples", "final_loss", "eval_accuracy", "eval_loss"):
                self.assertEqual(row[key], result[key], key)

    def test_several_parameters_are_a_grid(self):
        report = self.succeed("sweep", *MLP[:2], *MLP[2:6], "--param", "learning-rate=0.1,0.01", "--param", "batch_size=32,64",
                              "--epochs", "1", "--eval", "none", "--parallel", "2", "--allow-oversubscription", "--json")
        self.assertEqual([tuple(row["parameters"].values()) for row in report["trials"]],
                         [(0.1, 32), (0.1, 64), (0.01, 32), (0.01, 64)])
        self.assertEqual([row["steps"] for row in report["trials"]], [8, 4, 8, 4])

    def test_each_trial_has_a_model_directory_that_resumes(self):
        sweep = ("sweep", *MLP, *RATES, "--model-dir", self.model_dir, *TWO_DEVICES, "--json")
        first = self.succeed(*sweep, "--epochs", "1")
        stored = json.loads((self.model_dir / "sweep.json").read_text())
        self.assertEqual(stored["trials"], first["trials"])
        longer = self.succeed(*sweep, "--epochs", "2")
        self.assertEqual([row["steps"] for row in longer["trials"]], [32] * 3)
        alone = self.alone("--epochs", "2", "--learning-rate", "0.01")
        self.assertEqual(longer["trials"][1]["weights_sha256"], alone["weights_sha256"])
        one = self.succeed("train", *MLP, "--learning-rate", "0.1", "--epochs", "3", "--model-dir",
                           self.model_dir / "trial-0", "--json")
        self.assertEqual((one["first_step"], one["steps"]), (32, 48))

    def test_a_trial_that_fails_leaves_the_others_alone(self):
        (self.model_dir).mkdir()
        (self.model_dir / "trial-1").write_text("in the way")
        result = run("sweep", *MLP, *RATES, "--epochs", "1", "--model-dir", self.model_dir, *TWO_DEVICES, "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        rows = json.loads(result.stdout.splitlines()[-1])["trials"]
        self.assertEqual([row["status"] for row in rows], ["completed", "failed", "completed"])
        self.assertIn("trial-1", rows[1]["reason"])

    def test_bad_trials_stop_early(self):
        report = self.succeed("sweep", *MLP, "--optimizer", "sgd", "--param", "learning_rate=0.5,0.4,0.000001", "--epochs", "6",
                              "--devices", "cpu:0", "--stop-early", "median", "--grace-epochs", "1", "--json")
        good, other, bad = report["trials"]
        self.assertEqual((good["status"], good["epochs"], good["steps"]), ("completed", 6, 96))
        self.assertEqual(other["status"], "completed")
        self.assertEqual((bad["status"], bad["epochs"], bad["steps"]), ("stopped", 2, 32))
        self.assertIn("worse than the median", bad["reason"])
        alone = self.alone("--optimizer", "sgd", "--learning-rate", "0.5", "--epochs", "6")
        self.assertEqual(good["weights_sha256"], alone["weights_sha256"])

    def test_prints_a_line_for_each_change_and_a_table(self):
        result = run("sweep", *MLP, *RATES, "--epochs", "1", *TWO_DEVICES)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("\x1b", result.stderr)
        for trial in range(3):
            self.assertRegex(result.stderr, rf"trial {trial}  learning_rate=\S+  running on cpu:[01]\n")
            self.assertRegex(result.stderr, rf"trial {trial}  learning_rate=\S+  completed in \S+ s  accuracy ")
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"^trial  parameters +device +status +epoch +seconds +accuracy +loss +train_loss$")
        self.assertEqual(len(lines), 1 + 3 + 1)
        self.assertTrue(lines[-1].startswith("best  "), lines)

    def test_a_signal_ends_it_and_saves_what_runs(self):
        for flags in ((), ("--processes",)):
            with self.subTest(flags=flags):
                folder = self.folder / ("run" + "".join(flags))
                with started("sweep", *MLP, *RATES, "--steps", "1000000", "--eval", "none", "--devices", "cpu:0", *flags,
                             "--save-every", "20steps", "--model-dir", folder, "--json") as process:
                    while "running" not in process.stderr.readline():
                        pass
                    while not list(folder.glob("trial-0/checkpoints/ckpt-[1-9]*")):
                        self.assertIsNone(process.poll())
                    process.send_signal(signal.SIGTERM)
                    output, errors = process.communicate(timeout=DEADLINE)
                self.assertEqual(process.returncode, 75, errors)
                report = json.loads(output.splitlines()[-1])
                self.assertEqual([row["status"] for row in report["trials"]], ["cancelled"] * 3)
                self.assertEqual((report["signal"], report["failed"]), ("SIGTERM", 0))
                self.assertGreater(report["trials"][0]["steps"], 0)
                self.assertTrue((folder / "trial-0" / "weights.safetensors").exists())


class Refused(CommandTest):
    def refuse_sweep(self, *arguments, saying):
        self.refuse("sweep", *MLP, "--model-dir", self.model_dir, *arguments, saying=saying)
        self.assertFalse(self.model_dir.exists())

    def test_parameters(self):
        for parameters, saying in (
            ([], ["--param"]),
            (["learning_rat=0.1"], ["learning_rat", "did you mean 'learning_rate'"]),
            (["learning_rate"], ["NAME=VALUE"]),
            (["=0.1"], ["NAME=VALUE"]),
            (["learning_rate="], ["empty"]),
            (["learning_rate=0.1,,0.2"], ["empty"]),
            (["learning_rate=0.1,0.1"], ["'0.1' is given twice"]),
            (["learning_rate=0.1", "learning-rate=0.2"], ["given twice"]),
            (["batch_size=32"], ["--batch-size is given, too"]),
            (["learning_rate=fast"], ["learning_rate=fast"]),
            (["learning_rate=-1"], ["learning_rate=-1"]),
            (["model_dir=/a,/b"], ["the sweep itself sets 'model-dir'"]),
            (["nesterov=1"], ["nesterov"]),
            (["optimizer=adam,adm"], ["optimizer=adm", "adam"]),
        ):
            with self.subTest(parameters=parameters):
                self.refuse_sweep(*(word for parameter in parameters for word in ("--param", parameter)), saying=saying)

    def test_flags_that_do_not_fit(self):
        for flags, saying in (
            (["--strategy", "mirrored"], ["--strategy mirrored"]),
            (["--parallel", "0"], ["--parallel is 0"]),
            (["--parallel", "2", "--devices", "cpu:0"], ["--parallel and --devices"]),
            (["--devices", "cpu:0,cpu:0"], ["cpu:0"]),
            (["--devices", "gpu:99"], ["gpu:99"]),
            (["--stop-early", "medium"], ["median"]),
            (["--stop-early", "median", "--eval", "none"], ["--eval"]),
            (["--stop-early", "median", "--processes"], ["--processes"]),
            (["--share-data", "--processes"], ["--share-data"]),
            (["--resume", "/tmp"], ["--resume"]),
        ):
            with self.subTest(flags=flags):
                self.refuse_sweep(*RATES, *flags, saying=saying)

    def test_parameters_that_change_shared_data(self):
        self.refuse_sweep("--param", "seed=1,2", "--share-data", saying=["seed"])


if __name__ == "__main__":
    unittest.main()

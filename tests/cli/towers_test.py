"""Controllers, towers, accumulation and the placement log of `brigade train`."""
import json
import unittest

from brigade_process import MLP, SMALL, CommandTest, run

TWO = ("--devices", "cpu:0,cpu:1", "--allow-oversubscription")
SLIM = ("--model", "slim_net", *SMALL)


class Towers(CommandTest):
    def train(self, *arguments):
        return self.succeed("train", *arguments, "--eval", "none", "--json")

    def test_every_strategy_trains_the_same_weights_on_the_same_replicas(self):
        for model in (SLIM, MLP):
            reports = [self.train(*model, *TWO, "--strategy", strategy, "--steps", "4")
                       for strategy in ("mirrored", "central_storage", "towers")]
            self.assertEqual(len({report["weights_sha256"] for report in reports}), 1)
            self.assertEqual([report["controller"] for report in reports], [None, "cpu:0", "cpu:0"])

    def test_a_controller_of_ones_own(self):
        report = self.train(*MLP, *TWO, "--strategy", "towers", "--controller", "cpu:1", "--steps", "2")
        self.assertEqual(report["controller"], "cpu:1")

    def test_with_one_device_the_variables_lie_on_it(self):
        report = self.train(*MLP, "--strategy", "central_storage", "--devices", "cpu:1", "--allow-oversubscription",
                            "--steps", "1")
        self.assertEqual(report["controller"], "cpu:1")

    def test_accumulated_batches_are_one_step(self):
        def weights(name, *flags):
            report = self.train(*MLP, *flags, "--epochs", "1", "--optimizer", "sgd", "--learning-rate", "0.1",
                                "--shuffle-buffer", "1", "--model-dir", self.folder / name)
            return report, self.folder / name / "weights.safetensors"

        def apart(a, b):
            found = json.loads(run("inspect", a, b, "--json").stdout)
            return max((entry["max_abs_difference"] for entry in found["value_differs"]), default=0.0)

        one, large = weights("large", "--batch-size", "64")
        four, gathered = weights("gathered", "--batch-size", "16", "--accumulate", "4")
        _, small = weights("small", "--batch-size", "16")
        self.assertEqual((one["steps"], one["examples"]), (4, 256))
        self.assertEqual((four["steps"], four["examples"], four["accumulate"]), (4, 256, 4))
        self.assertLess(apart(large, gathered), 1e-5)
        self.assertGreater(apart(large, small), 1e-3)  # what a step a batch would have done

    def test_an_unfinished_group_counts_too(self):
        report = self.train(*MLP, "--accumulate", "3", "--epochs", "1")
        self.assertEqual((report["steps"], report["examples"]), (6, 256))

    def test_a_trained_function_model_is_evaluated_from_its_files(self):
        trained = self.succeed("train", *SLIM, "--epochs", "1", "--model-dir", self.model_dir, "--json")
        evaluated = self.succeed("evaluate", *SLIM, "--model-dir", self.model_dir, "--json")
        self.assertAlmostEqual(trained["eval_accuracy"], evaluated["eval_accuracy"], places=6)

    def test_the_placement_log_has_a_line_for_each_variable_and_layer(self):
        for model, variables, layers in ((SLIM, ["conv1/weights", "fc2/biases"], ["conv1/Conv2D", "fc2/MatMul"]),
                                         (MLP, ["dense1.weight"], ["dense1"])):
            result = run("train", *model, "--steps", "2", "--eval", "none", "--log-device-placement")
            self.assertEqual(result.returncode, 0, result.stderr)
            for name in variables:
                self.assertEqual(result.stderr.count(f"{name}: (variable): cpu:0"), 1, result.stderr)
            for name in layers:
                self.assertEqual(result.stderr.count(f"{name}: (layer): "), 1, result.stderr)


class Refusals(CommandTest):
    def test_a_controller_where_there_is_none(self):
        self.refuse_training(*MLP, "--strategy", "mirrored", "--controller", "cpu:0", saying=["--controller", "towers"])

    def test_a_controller_that_does_not_exist(self):
        self.refuse_training(*MLP, *TWO, "--strategy", "towers", "--controller", "gpu:7", saying=["gpu:7"])

    def test_accumulating_nothing(self):
        self.refuse_training(*MLP, "--accumulate", "0", saying=["--accumulate"])


if __name__ == "__main__":
    unittest.main()

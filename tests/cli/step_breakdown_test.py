"""The step breakdown that `brigade train` prints: where the time of a step goes."""
import json
import re
import unittest

from brigade_process import MLP, TWO_REPLICAS, CommandTest, run

PHASES = ["input", "compute", "wait", "communication", "update"]
LINE = r"(?m)^step breakdown  .*input \d+ %, compute \d+ %, wait \d+ %, communication \d+ %, update \d+ %$"
CENTRAL = ("--strategy", "central_storage", *TWO_REPLICAS[2:])


class StepBreakdown(CommandTest):
    def breakdown(self, *arguments):
        report = self.succeed("train", *MLP, *arguments, "--eval", "none", "--json")
        self.assertEqual(len(report["step_shares"]), report["replicas"])
        for replica in report["step_shares"]:
            self.assertEqual(list(replica), PHASES)
            self.assertAlmostEqual(sum(replica.values()), 1.0, places=6)
            self.assertTrue(all(0.0 <= fraction <= 1.0 for fraction in replica.values()), replica)
        return report["step_shares"]

    def test_one_replica_never_waits(self):
        breakdown, = self.breakdown("--steps", "20")
        self.assertEqual((breakdown["wait"], breakdown["communication"]), (0, 0))
        self.assertGreater(min(breakdown["input"], breakdown["compute"], breakdown["update"]), 0)

    def test_several_replicas_spend_time_in_every_phase(self):
        for strategy in (TWO_REPLICAS, CENTRAL):
            with self.subTest(strategy=strategy):
                for replica in self.breakdown(*strategy, "--steps", "20"):
                    self.assertGreater(min(replica.values()), 0, replica)

    def test_a_single_step_is_measured_too(self):
        self.breakdown("--steps", "1")

    def test_accumulated_batches_count(self):
        self.breakdown(*TWO_REPLICAS, "--accumulate", "3", "--steps", "10")

    def test_the_breakdown_is_printed_to_stderr(self):
        result = run("train", *MLP, "--steps", "3", "--eval", "none")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(re.findall(LINE, result.stderr)), 1, result.stderr)
        self.assertNotIn("step breakdown", result.stdout)

    def test_a_wait_for_input_names_the_command_that_finds_the_cause(self):
        for model in (["--model", "mnist_cnn"], ["--model", "mlp", "--hidden", "1", "--augment", "random_crop", "--map-threads", "1"]):
            with self.subTest(model=model):
                result = run("train", *MLP, *model, "--batch-size", "128", "--steps", "10", "--eval", "none", "--json")
                fraction = json.loads(result.stdout.splitlines()[-1])["step_shares"][0]["input"]
                self.assertEqual("`brigade data stats`" in result.stderr, fraction >= 0.1, result.stderr)


if __name__ == "__main__":
    unittest.main()

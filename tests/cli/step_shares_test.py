"""On what `brigade train` says that its steps spent their time."""
import json
import re
import unittest

from brigade_process import MLP, TWO_REPLICAS, CommandTest, run

PHASES = ["input", "compute", "wait", "communication", "update"]
LINE = r"(?m)^shares of a step  .*input \d+ %, compute \d+ %, wait \d+ %, communication \d+ %, update \d+ %$"
CENTRAL = ("--strategy", "central_storage", *TWO_REPLICAS[2:])


class StepShares(CommandTest):
    def shares(self, *arguments):
        report = self.succeed("train", *MLP, *arguments, "--eval", "none", "--json")
        self.assertEqual(len(report["step_shares"]), report["replicas"])
        for replica in report["step_shares"]:
            self.assertEqual(list(replica), PHASES)
            self.assertAlmostEqual(sum(replica.values()), 1.0, places=6)
            self.assertTrue(all(0.0 <= share <= 1.0 for share in replica.values()), replica)
        return report["step_shares"]

    def test_one_replica_waits_for_nobody(self):
        shares, = self.shares("--steps", "20")
        self.assertEqual((shares["wait"], shares["communication"]), (0, 0))
        self.assertGreater(min(shares["input"], shares["compute"], shares["update"]), 0)

    def test_replicas_share_every_phase(self):
        for strategy in (TWO_REPLICAS, CENTRAL):
            with self.subTest(strategy=strategy):
                for replica in self.shares(*strategy, "--steps", "20"):
                    self.assertGreater(min(replica.values()), 0, replica)

    def test_a_single_step_is_measured_too(self):
        self.shares("--steps", "1")

    def test_accumulated_batches_count(self):
        self.shares(*TWO_REPLICAS, "--accumulate", "3", "--steps", "10")

    def test_people_get_a_line(self):
        result = run("train", *MLP, "--steps", "3", "--eval", "none")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(re.findall(LINE, result.stderr)), 1, result.stderr)
        self.assertNotIn("shares of a step", result.stdout)

    def test_who_waits_for_input_learns_how_to_find_out_why(self):
        for model in (["--model", "mnist_cnn"], ["--model", "mlp", "--hidden", "1", "--augment", "random_crop", "--map-threads", "1"]):
            with self.subTest(model=model):
                result = run("train", *MLP, *model, "--batch-size", "128", "--steps", "10", "--eval", "none", "--json")
                share = json.loads(result.stdout.splitlines()[-1])["step_shares"][0]["input"]
                self.assertEqual("`brigade data stats`" in result.stderr, share >= 0.1, result.stderr)


if __name__ == "__main__":
    unittest.main()

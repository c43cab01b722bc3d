"""What `brigade data stats` shows of a training's input."""
import unittest

from brigade_process import CommandTest, run

INPUT = ["--dataset", "synthetic", "--train-examples", "200", "--batch-size", "10", "--augment", "random_crop"]


class DataStats(CommandTest):
    def test_measures_each_step(self):
        seen = self.succeed("data", "stats", *INPUT, "--map-threads", "2", "--steps", "30", "--json")
        self.assertEqual(seen["batches"], 30)
        self.assertGreater(seen["examples_per_second"], 0)
        self.assertTrue(0 < seen["position_bytes"] < 2000, seen)
        by_name = {step["name"]: step for step in seen["steps"]}
        self.assertEqual(by_name["random_crop"]["threads"], 2)
        self.assertGreaterEqual(by_name["random_crop"]["elements"], 200)
        self.assertEqual(by_name["batch(10)"]["threads"], 0)
        self.assertEqual(by_name["prefetch"]["threads"], 1)
        for step in seen["steps"]:
            for share in ("busy", "without_core", "stall", "starved"):
                self.assertTrue(0 <= step[share] <= 1, step)
        self.assertTrue(seen["bottleneck"])

    def test_shows_a_table_to_people(self):
        result = run("data", "stats", *INPUT, "--steps", "5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("per second  threads", result.stdout)
        self.assertIn(" examples/s, a position of ", result.stdout)
        self.assertIn("random_crop", result.stdout)

    def test_compares_autotuning_with_fixed_threads(self):
        seen = self.succeed("data", "stats", *INPUT, "--steps", "5", "--sweep", "--json")
        self.assertGreaterEqual(len(seen["fixed"]), 4)
        self.assertGreater(seen["autotuned_to_best"], 0)

    def test_refuses_what_cannot_work(self):
        for flags in (["stats", "--seconds", "0"], ["stats", "--step-ms", "-1"], ["stats", "--steps", "0"], []):
            result = run("data", *flags)
            self.assertEqual(result.returncode, 2, flags)
            self.assertIn("brigade: error: ", result.stderr)


if __name__ == "__main__":
    unittest.main()

"""A step that fails for a passing reason: the command resumes from the last checkpoint, as if nothing had happened."""
import json
import os
import subprocess
import unittest

from brigade_process import COMMAND, DEADLINE, MLP, TWO_REPLICAS, CommandTest
from event_points import curves

# A library that makes some syncs fail; not under sanitizers, which must be loaded first.
FAILING_SYNC = os.environ.get("BRIGADE_FAILING_SYNC")
RUN = (*MLP, *TWO_REPLICAS, "--steps", "20", "--save-every", "5steps", "--eval-every", "4steps", "--json",
       "--summaries-every", "1step")


@unittest.skipUnless(FAILING_SYNC, "a build with sanitizers")
class Recovery(CommandTest):
    def train(self, failures):
        """Trains on a disk on which so many syncs of the checkpoint of step 10 fail."""
        environment = {**os.environ, "LD_PRELOAD": FAILING_SYNC, "FAILING_SYNC_PATH": "/.ckpt-10.",
                       "FAILING_SYNC_TIMES": str(failures)}
        return subprocess.run([COMMAND, "train", *RUN, "--model-dir", self.model_dir], capture_output=True, text=True,
                              timeout=DEADLINE, stdin=subprocess.DEVNULL, env=environment)

    def setUp(self):
        super().setUp()
        self.wanted = self.succeed("train", *RUN, "--model-dir", self.folder / "unbroken")

    def check(self, report):
        for key in ("weights_sha256", "steps", "examples", "evaluations", "eval_accuracy"):
            self.assertEqual(report[key], self.wanted[key])

    def test_resumes_from_the_last_checkpoint(self):
        result = self.train(1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("is retried from the last checkpoint"), 1, result.stderr)
        self.assertIn("Stale file handle", result.stderr)
        self.assertIn("resumes from step 5", result.stderr)
        self.check(json.loads(result.stdout))
        self.assertEqual(sorted(curves(self.model_dir)["loss"]), list(range(1, 21)))
        self.assertEqual(sorted(curves(self.model_dir / "eval")["loss"]), [4, 8, 12, 16, 20])

    def test_gives_up_in_the_end_and_the_next_process_resumes(self):
        result = self.train(1000)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("is retried from the last checkpoint"), 3, result.stderr)
        self.assertRegex(result.stderr.splitlines()[-1], r"^brigade: error: .*Stale file handle")
        report = self.succeed("train", *RUN, "--model-dir", self.model_dir)
        self.assertEqual(report["first_step"], 5)
        self.check(report)


if __name__ == "__main__":
    unittest.main()

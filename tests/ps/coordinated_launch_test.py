"""The example with a coordinator below `brigade launch --chief`: a worker that is killed is restarted alone, and runs functions again."""
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "launch"))
from launcher import LIMIT, LaunchTest, processes_with

EXAMPLE = os.environ["BRIGADE_EXAMPLE"]
EPOCHS = 20
# The example's flags are empty, so that it finds its task in TF_CONFIG.
PROGRAM = [EXAMPLE, "--cluster=", "--task=", f"--epochs={EPOCHS}", "--steps_per_epoch=60"]


class CoordinatedLaunch(LaunchTest):
    def process_of(self, task):
        """The program of this task, not its shim."""
        name = os.path.basename(EXAMPLE)[:15]  # as the kernel keeps it
        end = time.monotonic() + LIMIT
        while True:
            for pid in processes_with(self.mark):
                try:
                    text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode()
                    if f'"task": {task}' in text and pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                        return pid
                except OSError:
                    continue
            self.assertLess(time.monotonic(), end, f"no process {task}")
            time.sleep(0.01)

    def test_a_killed_worker_is_restarted_and_the_chief_ends_well(self):
        launched = self.start(["--ps", 1, "--workers", 2, "--chief", "--max-restarts", 3, "--json"], PROGRAM)
        launched.line("[chief:0] Epoch 1:")
        os.kill(self.process_of('{"type": "worker", "index": 1}'), signal.SIGKILL)
        launched.line("[warning] worker:1 is restarted")
        launched.line(f"[chief:0] Epoch {EPOCHS}:")
        self.assertEqual(launched.end(), 0, launched.errors_text()[-4000:])
        result = launched.result()
        self.assertEqual((result["exit_code"], result["restarts"]), (0, 1))
        self.assertEqual([failure["task"] for failure in result["failures"]], ["worker:1"])
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()

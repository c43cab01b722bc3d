"""Model::fit with a chief that coordinates, below `brigade launch --chief --evaluator`: a worker that is killed costs neither
steps nor results, and the evaluator has evaluated the last checkpoint."""
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
STEPS = 60


class CoordinatedFit(LaunchTest):
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

    def test_all_tasks_have_the_results_though_a_worker_is_killed(self):
        # The example's flags are empty, so that it finds its task in TF_CONFIG.
        program = [EXAMPLE, "--cluster=", "--task=", f"--train_dir={self.folder / 'train'}", f"--epochs={EPOCHS}",
                   f"--steps_per_epoch={STEPS}"]
        launched = self.start(["--ps", 1, "--workers", 2, "--chief", "--evaluator", "--max-restarts", 3, "--json"], program)
        launched.line("[chief:0] Epoch 1:")
        os.kill(self.process_of('{"type": "worker", "index": 1}'), signal.SIGKILL)
        self.assertEqual(launched.end(), 0, launched.errors_text()[-4000:])
        result = launched.result()
        self.assertEqual((result["exit_code"], result["restarts"]), (0, 1))
        self.assertEqual([failure["task"] for failure in result["failures"]], ["worker:1"])

        def value(line):
            return float(line.split()[-1])
        epochs = [line for line in launched.output if line.startswith("[chief:0] Epoch ")]
        self.assertEqual(len(epochs), EPOCHS, launched.output)
        self.assertFalse([line for line in launched.output if line.startswith("[worker:") and "Epoch" in line])
        accuracies = {line.split("]")[0] + "]": value(line) for line in launched.output if "] Test accuracy " in line}
        self.assertEqual(sorted(accuracies), ["[chief:0]", "[worker:0]", "[worker:1]"])
        self.assertEqual(len(set(accuracies.values())), 1, accuracies)
        self.assertEqual(value(epochs[-1]), accuracies["[chief:0]"], "the last validation")
        self.assertGreater(accuracies["[chief:0]"], 0.6)
        evaluations = [line for line in launched.output if line.startswith("[evaluator:0] Step ")]
        self.assertGreaterEqual(int(evaluations[-1].split()[2].rstrip(":")), EPOCHS * STEPS)
        self.assertAlmostEqual(value(evaluations[-1]), accuracies["[chief:0]"], delta=0.02)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()

"""TensorBoard itself reads our files. Skipped where there is none.

Looked for in this Python, in the one that BRIGADE_TENSORBOARD_PYTHON names, and in .deps/tensorboard/bin/python:
    python3 -m venv .deps/tensorboard && .deps/tensorboard/bin/pip install tensorboard
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from sample import DEADLINE, SampleTest

HERE = pathlib.Path(__file__).resolve().parent
CANDIDATES = (os.environ.get("BRIGADE_TENSORBOARD_PYTHON"), sys.executable,
              str(HERE.parents[1] / ".deps/tensorboard/bin/python"))


def has_tensorboard(python):
    if not python or not os.path.exists(python):
        return False
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorboard') is None)"
    return subprocess.run([python, "-c", find], capture_output=True, timeout=DEADLINE).returncode == 0


PYTHON = next((python for python in CANDIDATES if has_tensorboard(python)), None)


@unittest.skipIf(PYTHON is None, "no Python with the package tensorboard: see BRIGADE_TENSORBOARD_PYTHON in tensorboard_test.py")
class TensorBoard(SampleTest):
    def test_reads_the_right_values(self):
        self.write_all()
        result = subprocess.run([PYTHON, HERE / "read_with_tensorboard.py", self.folder], capture_output=True, text=True,
                                timeout=DEADLINE)
        self.assertEqual(0, result.returncode, result.stderr)
        seen = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(list(range(10)), [step for step, _ in seen["loss"]])
        for step, value in seen["loss"]:
            self.assertAlmostEqual(1 / (step + 1), value, places=7)
        self.assertEqual([[0.25, 2], [0.75, 2]], [seen["share/input"], seen["share/compute"]])
        # What TensorFlow 2.21's histogram summary gives for the same values.
        self.assertEqual([-1.5, 1e30, 7, 1e30], seen["weights"]["head"])
        self.assertEqual([0, 1, 0, 1, 1, 0, 2, 0, 1, 0, 1], seen["weights"]["counts"])
        self.assertEqual(-1.624957930213695, seen["weights"]["limits"][0])
        self.assertEqual([1, 2], seen["ranges"]["limits"])
        for channels in (1, 3, 4):
            self.assertEqual([7, 5, [(200 + i) % 256 for i in range(35 * channels)]], seen[f"image{channels}"])
        self.assertEqual("# grüß *dich*", seen["note"])
        self.assertEqual({"images": [], "conv1/weights": [], "conv1/Conv2D": ["images", "conv1/weights"]}, seen["graph"])
        self.assertEqual({"conv1/Conv2D": 250}, seen["step_6"])


if __name__ == "__main__":
    unittest.main()

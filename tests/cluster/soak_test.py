"""The short form of `./dev soak`: a few random faults, and the same weights at the end.

BRIGADE_SOAK_SEED draws the moments of a printed seed again."""
import contextlib
import io
import os
import pathlib
import random
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import soak

from workers import COMMAND

SEED = os.environ.get("BRIGADE_SOAK_SEED", str(random.SystemRandom().randrange(1 << 31)))


class Soak(unittest.TestCase):
    def test_ends_with_the_weights_of_the_unhurt_run(self):
        self.assertEqual(soak.main(["--faults", "6", "--seed", SEED, "--command", COMMAND]), 0)


class Table(unittest.TestCase):
    def fault(self, kind, rank, phase, seconds):
        fault = soak.Fault(random.Random(1), 1, 2)
        fault.kind, fault.rank, fault.fell_in, fault.seconds = kind, rank, phase, seconds
        return fault

    def test_counts_by_fault_and_phase(self):
        text = soak.table([self.fault(signal.SIGKILL, 0, "step", 1.0), self.fault(signal.SIGKILL, 0, "step", 3.0),
                           self.fault(signal.SIGSTOP, 1, "shutdown", None)])
        rows = {line.split()[0] + " " + line.split()[1]: line.split()[2:] for line in text.splitlines()[1:]}
        self.assertEqual(rows["SIGKILL chief"], ["0", "2", "0", "0", "2.00", "s", "3.00", "s"])
        self.assertEqual(rows["SIGSTOP worker"], ["0", "0", "0", "1", "-", "-"])


class OtherWeights(unittest.TestCase):
    def test_are_a_failure(self):
        options = soak.argparse.Namespace(seed=1, faults=1)
        folder = pathlib.Path("/nonexistent")
        run = soak.Soak(options, folder)

        class Ended:
            __enter__ = lambda self: self
            __exit__ = lambda self, *_: None
            result = lambda self: {"weights_sha256": "other"}

        run._job = lambda name: Ended()
        run._hurt = lambda job: None
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(soak.Failed, "other weights"):
            run.run("wanted")


if __name__ == "__main__":
    unittest.main()

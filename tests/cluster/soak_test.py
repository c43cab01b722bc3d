"""The short form of `./dev soak`: a few random faults, and the same weights at the end.

BRIGADE_SOAK_SEED draws the moments of a printed seed again."""
import argparse
import contextlib
import io
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import faults
import soak
import training_job

from workers import COMMAND, FOUND_WITHIN, SLACK

SEED = os.environ.get("BRIGADE_SOAK_SEED", str(random.SystemRandom().randrange(1 << 31)))


class Soak(unittest.TestCase):
    def test_ends_with_the_weights_of_the_unhurt_run(self):
        limit = FOUND_WITHIN + SLACK
        self.assertEqual(soak.main(["--faults", "5", "--seed", SEED, "--limit", str(limit), "--command", COMMAND]), 0)


class Table(unittest.TestCase):
    def fault(self, kind, rank, phase, detected, recovered=None):
        fault = soak.Fault(faults.means_of(kind, 1), rank, phase)
        fault.fell_in, fault.detected, fault.recovered = phase, detected, recovered
        fault.restarts, fault.is_equal = 1, True
        return fault

    def test_counts_by_fault_victim_and_phase(self):
        text = soak.table([self.fault("SIGKILL", 0, "step", 0.5, 1.0), self.fault("SIGSTOP", 1, "shutdown", 8.0),
                           self.fault("SIGKILL", 0, "step", 0.7, 3.0)], too_late=[None])
        lines = text.splitlines()
        self.assertEqual(lines[2].split(), ["SIGKILL", "chief", "step", "2", "0.60", "0.70", "2.00", "3.00", "2", "equal"])
        self.assertEqual(lines[3].split(), ["SIGSTOP", "worker", "shutdown", "1", "8.00", "8.00", "-", "-", "1", "equal"])
        self.assertIn("1 more came too late", lines[4])
        self.assertIn("median 2.00 s, worst 3.00 s", lines[5])


class OtherWeights(unittest.TestCase):
    def test_are_a_failure(self):
        run = soak.Soak(argparse.Namespace(seed=1, faults=1), pathlib.Path("/nonexistent"))

        class Ended:
            training = training_job.SHORT
            result = lambda self: {"weights_sha256": "other"}

        run.wanted[training_job.SHORT] = "wanted"
        fault = soak.Fault(faults.means_of("SIGKILL", 0), 0, "step")
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(training_job.Failed, "other weights"):
            run.end("job-1", Ended(), [fault])
        self.assertFalse(fault.is_equal)


if __name__ == "__main__":
    unittest.main()

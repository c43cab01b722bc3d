"""The contract of communicators over MPI: mpi_ranks_test with two and with five processes."""
import os
import unittest

from mpirun import MpiTest


class Ranks(MpiTest):
    def run_ranks(self, count):
        process = self.start_mpirun(count, os.environ["BRIGADE_MPI_RANKS"], "--gtest_brief=1", options=("--tag-output",))
        self.assertEqual(process.wait(), 0, process.output() + "\n".join(process.lines()))
        self.assertIn("PASSED", process.output())

    def test_two(self):
        self.run_ranks(2)

    def test_five(self):
        self.run_ranks(5)


if __name__ == "__main__":
    unittest.main()

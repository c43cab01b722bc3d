"""A job that failed begins again: how often, and as what."""
import signal
import unittest

from launcher import LaunchTest, shell


class Restarts(LaunchTest):
    def counting(self, script):
        """A program that adds a line to a file of its rank's, and has the number of lines as $n."""
        file = f"{self.folder}/count-$RANK"
        return shell(f"echo x >> {file}; n=$(wc -l < {file}); {script}")

    def test_all_begin_again_after_a_failure_until_it_goes_well(self):
        # Rank 1 fails when rank 0 has written its line, which the failure ends.
        spoken = f"{self.folder}/spoken-$BRIGADE_GENERATION"
        job = self.run_job(["--nproc", 2, "--max-restarts", 5, "--json"], self.counting(
            f"echo generation $BRIGADE_GENERATION; if [ $RANK = 0 ]; then touch {spoken}; [ $n -ge 3 ] || exec sleep 60; "
            f"else while [ ! -e {spoken} ]; do sleep 0.01; done; [ $n -ge 3 ] || exit 1; fi"))
        self.assertEqual(job.result()["restarts"], 2)
        self.assertEqual([failure["generation"] for failure in job.result()["failures"]], [0, 1])
        for rank in range(2):
            self.assertEqual((self.folder / f"count-{rank}").read_text(), "x\n" * 3)
            self.assertEqual([line for line in job.output if line.startswith(f"[{rank}]")],
                             [f"[{rank}] generation {i}" for i in range(3)])

    def test_the_budget_ends(self):
        job = self.run_job(["--max-restarts", 2, "--json"], self.counting("exit $((n + 10))"), code=13)
        self.assertEqual(job.result()["restarts"], 2)
        self.assertEqual(len(job.result()["failures"]), 3)

    def test_a_process_that_saved_and_asks_for_it_begins_again_without_a_budget_for_failures(self):
        job = self.run_job(["--nproc", 2, "--json"], self.counting("[ $n -ge 3 ] || [ $RANK = 0 ] || exit 75; sleep 0.2"))
        self.assertEqual(job.result()["restarts"], 0)
        self.assertEqual(job.result()["membership_changes"], 2)
        self.assertEqual(job.result()["failures"], [])

    def test_a_job_that_is_asked_to_stop_does_not_begin_again(self):
        job = self.start(["--max-restarts", 5, "--json"], shell("trap 'exit 75' TERM; echo ready; while :; do sleep 0.01; done"))
        job.line("[0] ready")
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assertEqual(job.result()["restarts"], 0)


if __name__ == "__main__":
    unittest.main()

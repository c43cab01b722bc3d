"""A job whose number of processes changes while it runs."""
import os
import signal
import unittest

from launcher import LaunchTest, shell

# Prints its rank, saves when asked to, and ends well when the file "enough" is there.
WORKER = ("trap 'exit 75' TERM; echo rank $RANK of $WORLD_SIZE pid $$; "
          "while [ ! -e {folder}/enough ]; do sleep 0.01; done")


class Elastic(LaunchTest):
    def begin(self, count, flags):
        self.job = self.start(["--nproc", count, "--json", *flags], shell(WORKER.format(folder=self.folder)))
        return self.ranks(count)

    def ranks(self, count):
        """The processes of the next generation, by rank."""
        found = {}
        while len(found) < count:
            words = self.job.line("[").split()
            if words[1] == "rank" and words[4] == str(count):
                found[int(words[2])] = int(words[-1])
        return found

    def finish(self, code=0):
        (self.folder / "enough").touch()
        self.assertEqual(self.job.end(), code, self.job.errors_text())
        self.assert_nothing_is_left()
        return self.job.result()

    def test_a_killed_process_is_done_without(self):
        programs = self.begin(3, ["--elastic", "1:3"])
        os.kill(programs[1], signal.SIGKILL)
        self.assertEqual(sorted(self.ranks(2)), [0, 1])
        result = self.finish()
        self.assertEqual((result["processes"], result["membership_changes"], result["restarts"]), (2, 1, 0))

    def test_below_the_least_number_it_is_a_failure(self):
        programs = self.begin(2, ["--elastic", "2:3"])
        os.kill(programs[0], signal.SIGKILL)
        self.assertEqual(self.job.end(), 137)
        self.assertEqual(self.job.result()["membership_changes"], 0)

    def test_at_the_least_number_restarts_are_left(self):
        programs = self.begin(2, ["--elastic", "2:3", "--max-restarts", 1])
        os.kill(programs[0], signal.SIGKILL)
        self.ranks(2)
        result = self.finish()
        self.assertEqual((result["membership_changes"], result["restarts"]), (0, 1))

    def test_sigusr1_takes_one_more_in(self):
        self.begin(1, ["--elastic", "1:2"])
        self.job.send(signal.SIGUSR1)
        self.assertEqual(sorted(self.ranks(2)), [0, 1])
        self.job.send(signal.SIGUSR1)  # no more than two
        self.job.line("[warning] SIGUSR1")
        result = self.finish()
        self.assertEqual((result["processes"], result["membership_changes"], result["failures"]), (2, 1, []))

    def test_one_that_went_comes_back(self):
        programs = self.begin(2, ["--elastic", "1:2"])
        os.kill(programs[1], signal.SIGKILL)
        self.ranks(1)
        self.job.send(signal.SIGUSR1)
        self.ranks(2)
        result = self.finish()
        self.assertEqual((result["processes"], result["membership_changes"]), (2, 2))

    def test_a_fault_of_the_programs_own_is_no_loss(self):
        programs = self.begin(2, ["--elastic", "1:2"])
        os.kill(programs[1], signal.SIGSEGV)
        self.assertEqual(self.job.end(), 139)

    def test_without_elastic_sigusr1_changes_nothing(self):
        self.begin(1, [])
        self.job.send(signal.SIGUSR1)
        self.job.line("[warning] SIGUSR1")
        self.assertEqual(self.finish()["membership_changes"], 0)


if __name__ == "__main__":
    unittest.main()

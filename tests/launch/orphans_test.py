"""Nothing of a job outlives it, whatever was killed: not even a grandchild that forked twice, left the session and ignores signals."""
import os
import pathlib
import signal
import time
import unittest

from launcher import LIMIT, STUBBORN, LaunchTest, python, state

WAIT = STUBBORN + """
os.write(1, f"ready {os.getpid()} {os.getppid()}\\n".encode())
time.sleep(1000)
"""


class Orphans(LaunchTest):
    def started(self, flags=("--nproc", 2), count=2):
        """The job, and by rank its program, its shim and its grandchild."""
        job = self.start(flags, python(WAIT))
        ranks = {}
        while len([1 for each in ranks.values() if len(each) == 3]) < count:
            prefix, word, *numbers = job.line("[").split()
            if word in ("ready", "stubborn"):
                ranks.setdefault(int(prefix[1:-1]), {}).update(
                    {"grandchild": int(numbers[0])} if word == "stubborn"
                    else {"program": int(numbers[0]), "shim": int(numbers[1])})
        return job, ranks

    def test_at_the_end_of_the_program(self):
        job = self.start([], python(STUBBORN))
        self.assertEqual(job.end(), 0)
        self.assert_nothing_is_left()

    def test_when_the_launcher_is_killed(self):
        job, _ = self.started()
        job.send(signal.SIGKILL)
        job.end()
        self.assert_nothing_is_left()

    def test_when_a_shim_is_killed(self):
        job, ranks = self.started()
        os.kill(ranks[1]["shim"], signal.SIGKILL)
        self.assertEqual(job.end(), 137)
        self.assertIn("Rank 1 failed first: signal 9 (SIGKILL)", job.errors_text())
        self.assert_nothing_is_left()

    def test_when_a_shim_is_killed_while_others_continue(self):
        _, ranks = self.started(flags=("--nproc", 2, "--independent"))
        os.kill(ranks[1]["shim"], signal.SIGKILL)
        for pid in ranks[1].values():
            self.wait_for_state(pid, (None,))
        for pid in ranks[0].values():
            self.assertIsNotNone(state(pid))

    def test_when_a_program_is_killed(self):
        job, ranks = self.started()
        os.kill(ranks[0]["program"], signal.SIGKILL)
        self.assertEqual(job.end(), 137)
        self.assert_nothing_is_left()

    def test_when_the_launcher_is_asked_to_stop(self):
        job, _ = self.started()
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assert_nothing_is_left()

    def test_when_a_stopped_program_has_to_go(self):
        job, ranks = self.started(flags=("--nproc", 2, "--grace", 0.2))
        os.kill(ranks[0]["program"], signal.SIGSTOP)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assert_nothing_is_left()

    def test_when_the_launchers_terminal_goes(self):
        job, _ = self.started()
        job.send(signal.SIGHUP)
        self.assertEqual(job.end(), 75)
        self.assert_nothing_is_left()

    def test_grandchildren_are_reaped_while_the_program_runs(self):
        job = self.start([], python("""
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os._exit(0)
    os._exit(0)
os.wait()
print("shim", os.getppid(), flush=True)
time.sleep(1000)
"""))
        shim = job.number("[0] shim")
        children = pathlib.Path(f"/proc/{shim}/task/{shim}/children")
        for child in children.read_text().split():
            self.wait_until_reaped(child)

    def wait_until_reaped(self, pid):
        """A zombie goes away; the program itself stays."""
        end = time.monotonic() + LIMIT
        stat = pathlib.Path(f"/proc/{pid}/stat")
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            self.assertLess(time.monotonic(), end, f"{pid} waits for its parent")
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()

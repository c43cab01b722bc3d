"""Processes that join the launcher's rendezvous: one that is killed or stalls is lost, in time and by name."""
import os
import signal
import time
import unittest

from launcher import SLOWNESS, LaunchTest, shell

MEMBER = os.environ["BRIGADE_LAUNCH_MEMBER"]
PEER_TIMEOUT = 2.0 * SLOWNESS
SLACK = 8.0 * SLOWNESS  # for a busy machine


class Members(LaunchTest):
    def begin(self, *flags, count=3, does=()):
        self.job = self.start(["--nproc", count, "--peer-timeout", PEER_TIMEOUT, *flags], [MEMBER, *does])
        return self.joined(count)

    def joined(self, count, generation=0):
        """The processes by rank, when all have met."""
        found = {}
        while len(found) < count:
            words = self.job.line("[").split()
            if words[1] == "joined" and words[2] == str(generation):
                found[int(words[0][1:-1])] = int(words[3])
        return found

    def test_a_killed_member_is_named_though_others_notice_and_fail(self):
        programs = self.begin()
        os.kill(programs[1], signal.SIGKILL)
        self.assertEqual(self.job.end(), 137)
        self.assertIn("Rank 1 failed first: signal 9 (SIGKILL)", self.job.errors_text())
        self.assert_nothing_is_left()

    def test_a_member_that_stands_still_is_lost_after_the_peer_timeout(self):
        programs = self.begin()
        begin = time.monotonic()
        os.kill(programs[2], signal.SIGSTOP)
        self.assertEqual(self.job.end(), 137)
        took = time.monotonic() - begin
        print(f"stopped member: the job had ended after {took:.2f} s", flush=True)
        self.assertLess(took, PEER_TIMEOUT + SLACK)
        self.assertIn("Rank 2 failed first: it has not been heard from for", self.job.errors_text())
        self.assert_nothing_is_left()

    def test_members_wait_for_a_launcher_that_was_stopped(self):
        job = self.start(["--nproc", 2, "--peer-timeout", 1], [MEMBER, "add"])
        for rank in range(2):
            job.line(f"[{rank}] sum ")
        job.send(signal.SIGSTOP)
        self.wait_for_state(job.pid, "T")
        time.sleep(7)  # many times the peer timeout of both sides, and longer than a call of the store takes patience for
        job.send(signal.SIGCONT)
        before = max(int(line.split()[-1]) for line in job.output if " sum " in line)
        while job.number("[0] sum ") < before + 20:
            pass
        self.assertNotIn("lost", job.errors_text())
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)

    def test_members_of_a_stopped_launcher_that_is_killed_name_it(self):
        job = self.start(["--nproc", 2, "--peer-timeout", 1, "--output-dir", self.folder], [MEMBER, "add"])
        job.line("[0] sum ")
        job.send(signal.SIGSTOP)
        self.wait_for_state(job.pid, "T")
        job.send(signal.SIGKILL)
        self.assertEqual(job.end(), -signal.SIGKILL)
        self.assert_nothing_is_left()

    def test_the_next_generation_joins_again(self):
        programs = self.begin("--max-restarts", 1, does=["stay"])
        begin = time.monotonic()
        os.kill(programs[0], signal.SIGKILL)
        self.joined(3, generation=1)
        print(f"killed member: all had joined again after {time.monotonic() - begin:.2f} s", flush=True)
        self.job.send(signal.SIGTERM)
        self.assertEqual(self.job.end(), 75)

    def test_an_elastic_job_continues_without_one_that_stands_still(self):
        programs = self.begin("--elastic", "2:3", "--json", does=["stay"])
        os.kill(programs[1], signal.SIGSTOP)
        self.joined(2, generation=1)
        self.job.send(signal.SIGTERM)
        self.assertEqual(self.job.end(), 75)
        self.assertEqual(self.job.result()["processes"], 2)

    def test_a_process_that_is_stopped_before_it_has_joined_is_lost(self):
        begin = time.monotonic()
        self.job = self.start(["--nproc", 2, "--peer-timeout", PEER_TIMEOUT],
                              shell(f"[ $RANK = 0 ] && exec {MEMBER}; echo stopped $$; kill -STOP $$"))
        pid = self.job.number("[1] stopped")
        self.assertEqual(self.job.end(), 137)
        took = time.monotonic() - begin
        print(f"stopped before it joined: the job had ended after {took:.2f} s", flush=True)
        self.assertGreaterEqual(took, PEER_TIMEOUT)
        self.assertIn(f"Rank 1 failed first: it was stopped (SIGSTOP, pid {pid}) for", self.job.errors_text())
        self.assert_nothing_is_left()

    def test_who_leaves_and_fails_is_named_though_others_fail_before_it_has_ended(self):
        pid = self.folder / "pid"
        self.job = self.start(["--nproc", 2], shell(
            f"if [ $RANK = 1 ]; then echo $$ > {pid}; {MEMBER}; exit 1; fi; {MEMBER} leave; "
            f"while kill -0 $(cat {pid}) 2>/dev/null; do sleep 0.01; done; exit 3"))
        self.assertEqual(self.job.end(), 3)
        self.assertIn("Rank 0 failed first: exit code 3", self.job.errors_text())

    def test_members_with_a_key(self):
        self.job = self.start(["--nproc", 2], [MEMBER], BRIGADE_CLUSTER_KEY="5" * 64)
        self.joined(2)
        self.job.send(signal.SIGTERM)
        self.assertEqual(self.job.end(), 75)


if __name__ == "__main__":
    unittest.main()

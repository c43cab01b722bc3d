"""Programs of the same machine that are no members: one that makes calls as if it were, and storms of connections.

BRIGADE_RPC_STRANGER names the program that makes calls (rendezvous_stranger.cpp)."""
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import time
import unittest

from members import SLOWNESS, Member, free_port

STRANGER = os.environ["BRIGADE_RPC_STRANGER"]
STORM = pathlib.Path(__file__).with_name("storm.py")
PEER_TIMEOUT = 8.0 * SLOWNESS  # the default; a slow build stretches it
START_LIMIT = 60.0 * SLOWNESS
NOTICED = 10.0 * SLOWNESS
KEY = "5" * 64


class Strangers(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        folder = tempfile.TemporaryDirectory(prefix="brigade-rpc-")
        self.addCleanup(folder.cleanup)
        self.log = open(pathlib.Path(folder.name) / "log", "ab")  # each appends to it
        self.addCleanup(self.log.close)

    def start(self, rank, **environment):
        member = Member(rank, 2, self.port, START_LIMIT, PEER_TIMEOUT, stderr=self.log, **environment)
        self.addCleanup(member.end)
        return member

    def start_all(self, **environment):
        members = [self.start(rank, **environment) for rank in range(2)]
        for member in members:
            self.assertEqual(member.next_line(START_LIMIT), "joined")
        return members

    def logged(self):
        return pathlib.Path(self.log.name).read_text()

    def storm(self, seconds):
        """Three processes that connect as fast as they can."""
        storms = [subprocess.Popen([sys.executable, str(STORM), str(self.port), str(seconds)], stdout=subprocess.PIPE, text=True)
                  for _ in range(3)]
        for each in storms:
            self.addCleanup(each.stdout.close)
            self.addCleanup(each.wait)
            self.addCleanup(each.kill)
        for each in storms:
            self.assertEqual(each.stdout.readline(), "begun\n")
        return storms

    def end(self, storms, begin):
        counts = [each.communicate(timeout=START_LIMIT)[0].split() for each in storms]
        connected = sum(int(count) - int(failed) for count, failed in counts)
        took = time.monotonic() - begin
        print(f"{self.id().split('.')[-1]}: {connected / took:.0f} connections a second for {took:.0f} s", flush=True)
        self.assertGreater(connected / took, 300 / SLOWNESS, "that was no storm")

    def assert_undisturbed(self, members):
        for member in members:
            with self.assertRaises(queue.Empty):
                print(member.next_line(0.1))

    def test_a_call_without_a_members_token_is_refused_and_changes_nothing(self):
        members = self.start_all()
        found = subprocess.run([STRANGER, f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True, timeout=START_LIMIT, check=True)
        lines = found.stdout.splitlines()
        self.assertEqual(len(lines), 3 * 2 * 4)
        for line in lines:
            self.assertTrue(line.endswith(" PERMISSION_DENIED"), line)
        self.assert_undisturbed(members)  # a key that somebody set would have ended them
        end = time.monotonic() + NOTICED
        while "24 calls to the rendezvous" not in self.logged():
            self.assertLess(time.monotonic(), end, self.logged())
            time.sleep(0.05)

    def test_without_a_key_the_log_says_once_what_that_means(self):
        self.start_all()
        self.assertEqual(self.logged().count("Without a cluster key any program of this machine"), 1, self.logged())

    def test_with_a_key_the_log_says_nothing_of_it(self):
        self.start_all(BRIGADE_CLUSTER_KEY=KEY)
        self.assertNotIn("Without a cluster key", self.logged())

    def survive(self, **environment):
        members = self.start_all(**environment)
        begin = time.monotonic()
        self.end(self.storm(2 * PEER_TIMEOUT), begin)
        self.assert_undisturbed(members)
        self.assertEqual(self.logged().count("A storm of connections at 127.0.0.1:"), 1, self.logged())
        members[1].leave()
        self.assertEqual(members[1].next_line(NOTICED), "left")

    def test_members_survive_a_storm(self):
        self.survive()

    def test_members_with_a_key_survive_a_storm(self):
        self.survive(BRIGADE_CLUSTER_KEY=KEY)

    def test_a_start_in_a_storm_is_slow_at_most(self):
        first = self.start(0)
        begin = time.monotonic()
        storms = self.storm(10 * SLOWNESS)
        second = self.start(1)
        for member in (first, second):
            self.assertEqual(member.next_line(START_LIMIT), "joined")
        print(f"started after {time.monotonic() - begin:.1f} s", flush=True)
        self.end(storms, begin)
        self.assert_undisturbed([first, second])


if __name__ == "__main__":
    unittest.main()

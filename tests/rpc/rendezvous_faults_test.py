"""Members of a cluster as processes, of which one is killed or stopped: the others say which, in time."""
import queue
import signal
import time
import unittest

from members import SLOWNESS, Member, free_port

PEER_TIMEOUT = 2.0 * SLOWNESS
SLACK = 6.0 * SLOWNESS  # for a busy machine
START_LIMIT = 30.0 * SLOWNESS


class Faults(unittest.TestCase):
    def start(self, world_size, come=None, start_timeout=START_LIMIT):
        port = free_port()
        ranks = range(world_size) if come is None else come
        members = {rank: Member(rank, world_size, port, start_timeout, PEER_TIMEOUT) for rank in ranks}
        for member in members.values():
            self.addCleanup(member.end)
        return members

    def started(self, world_size):
        members = self.start(world_size)
        for member in members.values():
            self.assertEqual(member.next_line(START_LIMIT), "joined")
        return members

    def assert_named(self, members, victim, reason, limit):
        begin = time.monotonic()
        for rank, member in members.items():
            if rank == victim:
                continue
            line = member.next_line(limit + SLACK)
            self.assertIn("UNAVAILABLE", line)
            self.assertIn(f"/job:worker/task:{victim} (rank {victim}, pid ", line)
            self.assertIn(reason, line)
        took = time.monotonic() - begin
        print(f"{self.id().split('.')[-1]}: named after {took:.3f} s", flush=True)
        self.assertLess(took, limit + SLACK)

    def test_killed_worker(self):
        members = self.started(3)
        members[2].send(signal.SIGKILL)
        self.assert_named(members, 2, "its connection was closed", 0)

    def test_killed_first_member(self):
        members = self.started(3)
        members[0].send(signal.SIGKILL)
        self.assert_named(members, 0, "its connection was closed", 0)

    def test_stopped_worker_is_named_and_finds_itself_lost(self):
        members = self.started(3)
        members[1].send(signal.SIGSTOP)
        self.assert_named(members, 1, "it has not been heard from for", PEER_TIMEOUT)
        members[1].send(signal.SIGCONT)
        line = members[1].next_line(PEER_TIMEOUT + SLACK)
        self.assertIn("error", line)

    def test_stopped_worker_alone_with_the_first_finds_itself_lost(self):
        members = self.started(2)
        members[0].send(signal.SIGSTOP)  # the rendezvous continues later, as if its machine had
        members[1].send(signal.SIGSTOP)
        time.sleep(PEER_TIMEOUT / 4)
        members[0].send(signal.SIGCONT)
        self.assert_named(members, 1, "it has not been heard from for", PEER_TIMEOUT * 1.5)

    def test_stopped_first_member_is_named_and_finds_itself_lost(self):
        members = self.started(3)
        members[0].send(signal.SIGSTOP)
        self.assert_named(members, 0, "it has not been heard from for", PEER_TIMEOUT)
        members[0].send(signal.SIGCONT)
        self.assertIn("error", members[0].next_line(PEER_TIMEOUT + SLACK))

    def test_member_killed_during_the_start(self):
        members = self.start(3, come=(0, 1))
        with self.assertRaises(queue.Empty):  # they wait for rank 2
            members[0].next_line(2.0 * SLOWNESS)
        members[1].send(signal.SIGKILL)
        # On a machine so busy that it had not come yet, the start's deadline tells.
        self.assertRegex(members[0].next_line(START_LIMIT + SLACK), "UNAVAILABLE.*task:1|DEADLINE")

    def test_sigterm_ends_a_member_that_waits_for_others(self):
        members = self.start(2, come=(1,))
        with self.assertRaises(queue.Empty):
            members[1].next_line(0.3 * SLOWNESS)
        members[1].send(signal.SIGTERM)
        self.assertEqual(members[1].next_line(SLACK), "")

    def test_leaving_is_no_loss(self):
        members = self.started(3)
        members[2].leave()
        self.assertEqual(members[2].next_line(SLACK), "left")
        with self.assertRaises(queue.Empty):
            members[1].next_line(PEER_TIMEOUT * 1.5)


if __name__ == "__main__":
    unittest.main()

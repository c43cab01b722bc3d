"""A worker that is killed or stopped: the others end soon, with 1, and name it; nobody hangs, and nothing else is left."""
import signal
import time
import unittest

from workers import ENDLESS, PEER_TIMEOUT, SLACK, TINY, ClusterTest, free_ports

RUN = (*TINY, *ENDLESS, "--batch-size", "16", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")


class Loss(ClusterTest):
    def training(self, count, *arguments):
        """Workers that have made their first steps."""
        workers = self.start(count, *RUN, *arguments)
        workers[0].wait_for(r"^step \d+")
        return workers

    def hurt(self, workers, victim, number):
        workers[victim].signal(number)
        return time.monotonic()

    def check(self, workers, victim, number, limit):
        since = self.hurt(workers, victim, number)
        took = self.assert_name([each for i, each in enumerate(workers) if i != victim], victim, since, limit + SLACK)
        print(f"{signal.Signals(number).name} of worker {victim}: all others ended after {took:.2f} s", flush=True)

    def test_killed_worker_in_a_step(self):
        self.check(self.training(3), 1, signal.SIGKILL, 0)

    def test_killed_chief_in_a_step(self):
        self.check(self.training(3), 0, signal.SIGKILL, 0)

    def test_killed_worker_over_tcp(self):
        self.check(self.training(2, "--transport", "gloo"), 1, signal.SIGKILL, 0)

    def test_stopped_worker(self):
        self.check(self.training(2), 1, signal.SIGSTOP, PEER_TIMEOUT)

    def test_stopped_chief(self):
        self.check(self.training(2), 0, signal.SIGSTOP, PEER_TIMEOUT)

    def test_stopped_worker_over_tcp(self):
        self.check(self.training(2, "--transport", "gloo"), 1, signal.SIGSTOP, PEER_TIMEOUT)

    def test_killed_while_a_third_is_awaited(self):
        ports = free_ports(3)
        present = [self.start_worker(ports, index, *RUN) for index in range(2)]
        present[0].wait_for(r"Waiting for 1 of 3 processes: /job:worker/task:2 ")
        self.check(present, 1, signal.SIGKILL, 0)


if __name__ == "__main__":
    unittest.main()

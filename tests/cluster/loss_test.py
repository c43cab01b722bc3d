"""A worker that is killed or stopped: the others end soon, with 1, and name it; nobody hangs, and nothing else is left."""
import pathlib
import signal
import time
import unittest

from workers import ENDLESS, PEER_TIMEOUT, SLACK, TINY, ClusterTest, free_ports, wait_until

RUN = (*TINY, *ENDLESS, "--batch-size", "16", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")


def is_connected(process, port):
    """Whether it has a connection to this port of the machine."""
    mine = set()
    for each in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            mine.add(str(each.readlink()))
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            is_established = fields[3] == "01" and int(fields[2].rpartition(":")[2], 16) == port
            if is_established and f"socket:[{fields[9]}]" in mine:
                return True
    return False


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
        wait_until(lambda: all(is_connected(worker, ports[0]) for worker in present))
        self.check(present, 1, signal.SIGKILL, 0)



if __name__ == "__main__":
    unittest.main()

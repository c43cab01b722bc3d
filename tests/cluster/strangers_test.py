"""Connections to the rendezvous of a running training that are not from members: they change nothing."""
import os
import signal
import socket
import time
import unittest

from workers import PEER_TIMEOUT, TINY, ClusterTest, free_ports, wait_until

SETTINGS = (*TINY, "--batch-size", "16", "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s")
RUN = (*SETTINGS, "--steps", "20")
LONG = (*SETTINGS, "--steps", "3000")  # for strangers that come while it runs
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def garbage():
    """What strangers may send."""
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield os.urandom(4096)
    yield HTTP2 + os.urandom(4096)
    yield HTTP2 + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff" * 65536
    yield b"\x16\x03\x01" + os.urandom(512)  # as TLS begins
    yield b""  # says nothing


class Strangers(ClusterTest):
    def knock(self, port):
        """Opens connections that send garbage or nothing, and leaves them open."""
        for each in garbage():
            for _ in range(3):
                stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
                self.addCleanup(stranger.close)
                try:
                    stranger.sendall(each)
                except OSError:
                    continue  # it was shown out

    def is_open(self, port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def end(self, workers, wanted):
        result = workers[0].result()
        self.assertEqual([worker.wait() for worker in workers], [0] * len(workers))
        self.assertEqual(result["weights_sha256"], wanted)

    def setUp(self):
        super().setUp()
        self.ports = free_ports(2)

    def test_do_not_disturb_a_running_training(self):
        wanted = self.train(2, *LONG)["weights_sha256"]
        workers = self.start(2, *LONG, ports=self.ports)
        workers[0].wait_for(r"^step \d+/")
        workers[1].signal(signal.SIGSTOP)  # else a busy machine may let the strangers come too late
        self.knock(self.ports[0])
        workers[1].signal(signal.SIGCONT)
        self.assertTrue(all(worker.is_running() for worker in workers), "it had ended before the strangers came")
        self.end(workers, wanted)

    def test_do_not_disturb_the_start(self):
        chief = self.start_worker(self.ports, 0, *RUN)
        wait_until(lambda: self.is_open(self.ports[0]))
        self.knock(self.ports[0])
        worker = self.start_worker(self.ports, 1, *RUN)
        self.assertEqual(chief.result()["workers"], 2)
        self.assertEqual(worker.wait(), 0, worker.lines())

    def test_what_only_accepts_connections_is_no_matter_of_keys(self):
        with socket.create_server(("127.0.0.1", self.ports[0])) as silent:
            silent.listen()
            worker = self.start_worker(self.ports, 1, *RUN, "--start-timeout", "8s")
            self.assertEqual(worker.wait(), 1, worker.lines())
        self.assertIn("/job:worker/task:0", worker.last_line())
        self.assertNotIn("differs", worker.last_line())


class Keys(ClusterTest):
    def key(self, name):
        path = self.folder / name
        path.write_text(os.urandom(32).hex() + "\n")
        path.chmod(0o600)
        return ("--key-file", path)

    def test_a_worker_with_another_key_or_none_does_not_come_in(self):
        ports, key, other = free_ports(2), self.key("key"), self.key("other")
        chief = self.start_worker(ports, 0, *RUN, *key)
        for wrong in (other, ()):
            with self.subTest(wrong):
                stranger = self.start_worker(ports, 1, *RUN, *wrong, "--start-timeout", "20s")
                self.assertIn(stranger.wait(), (1, 2), stranger.lines())
                self.assertIn("key", stranger.last_line())
                self.assertTrue(chief.is_running(), chief.lines())
        worker = self.start_worker(ports, 1, *RUN, *key)
        self.assertEqual(chief.result()["workers"], 2)
        self.assertEqual(worker.wait(), 0, worker.lines())

    def test_a_second_worker_of_the_same_task_is_refused(self):
        ports = free_ports(2)
        workers = self.start(2, *TINY, "--batch-size", "16", "--steps", "100000000", "--log-every", "0", ports=ports)
        workers[0].wait_for(r"^step \d+/")
        third = self.start_worker(ports, 1, *RUN, "--start-timeout", "20s")
        self.assertIn(third.wait(), (1, 2), third.lines())
        self.assertIn("/job:worker/task:1", third.last_line())
        since = time.monotonic()
        workers[0].wait_for(r"^step \d+/", since=since)  # goes on
        for worker in workers:
            worker.signal(signal.SIGTERM)
        self.assertEqual([worker.wait() for worker in workers], [75, 75])


if __name__ == "__main__":
    unittest.main()

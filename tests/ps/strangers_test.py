"""Programs that are not of the job: garbage, silence, other keys, wrong tasks. The training ends as without them."""
import os
import signal
import socket
import unittest

from servers import STEP, UNEVALUATED, Cluster, ServersTest

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
RUN = (*UNEVALUATED, "--steps", "300")


def garbage():
    """What strangers may send."""
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield os.urandom(4096)
    yield HTTP2 + os.urandom(4096)
    yield HTTP2 + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff" * 65536
    yield b"\x16\x03\x01" + os.urandom(512)  # as TLS begins
    yield b""  # says nothing


class Strangers(ServersTest):
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

    def test_do_not_disturb_a_training(self):
        wanted = self.train_job(1, 1, *RUN)[1][0]["weights_sha256"]
        self.state = self.folder / "state-disturbed"
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        server.wait_for("listens at")
        self.knock(cluster.ports["ps"][0])
        chief = self.start_trainer(cluster, 0, *RUN)
        chief.wait_for(STEP)
        self.knock(cluster.ports["ps"][0])
        self.assertTrue(chief.is_running(), "it had ended before the strangers came")
        self.assertEqual(chief.result()["weights_sha256"], wanted)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])

    def test_a_worker_of_another_cluster_is_refused(self):
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        server.wait_for("listens at")
        other = Cluster(1, 2)
        other.ports["ps"] = cluster.ports["ps"]
        stranger = self.start_trainer(other, 1, *RUN)
        self.assertIn(stranger.wait(), (1, 2), stranger.lines()[-8:])
        self.assertIn("/job:worker/task:1", stranger.last_line())
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, "--steps", "20")
        self.assertEqual(chief.result()["steps"], 20)
        self.assertEqual(server.wait(), 0, server.lines()[-8:])


class Keys(ServersTest):
    def key(self, name):
        path = self.folder / name
        path.write_text(os.urandom(32).hex() + "\n")
        path.chmod(0o600)
        return ("--key-file", path)

    def test_only_a_worker_with_the_key_comes_in(self):
        cluster, key = Cluster(1, 1), self.key("key")
        server = self.start_server(cluster, 0, *key)
        server.wait_for("listens at")
        for wrong in (self.key("other"), ()):
            with self.subTest(wrong=wrong):
                stranger = self.start_trainer(cluster, 0, *RUN, *wrong, "--server-timeout", "5s")
                self.assertIn(stranger.wait(), (1, 2), stranger.lines()[-8:])
                self.assertTrue(server.is_running(), server.lines()[-8:])
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, "--steps", "20", *key)
        self.assertEqual(chief.result()["steps"], 20)
        self.assertEqual(server.result()["pushes"], 20)

    def test_nothing_is_served_beyond_this_machine_without_a_key(self):
        cluster = Cluster(1, 1)
        config = cluster.flag().replace(f"localhost:{cluster.ports['ps'][0]}", f"0.0.0.0:{cluster.ports['ps'][0]}")
        server = self.start_process("ps", "--cluster", config, "--task", "ps:0", "--folder", self.state)
        self.assertEqual(server.wait(), 2, server.lines())
        self.assertIn("key", server.last_line())

    def test_two_servers_do_not_share_a_folder(self):
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        server.wait_for("listens at")
        for more in ((), ("--overwrite",)):
            second = self.start_server(Cluster(1, 1), 0, *more)
            self.assertEqual(second.wait(), 2, second.lines())
            self.assertIn(str(self.state), second.last_line())
        self.assertTrue(server.is_running())
        self.end_by(server, signal.SIGTERM, 75)


if __name__ == "__main__":
    unittest.main()

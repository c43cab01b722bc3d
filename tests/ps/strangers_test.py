"""Programs that are not of the job: garbage, silence, other keys, wrong tasks, a thousand connections. The training ends as without
them, and the server needs no more memory."""
import os
import pathlib
import re
import resource
import signal
import struct
import time
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


def http2_frame(kind, flags, stream, payload, length=None):
    return struct.pack("!I", len(payload) if length is None else length)[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def call(method, message):
    """The bytes of a gRPC call that begins, with what it sends."""
    headers = {":method": "POST", ":scheme": "http", ":path": f"/brigade.rpc.proto.Messages/{method}", ":authority": "localhost",
               "content-type": "application/grpc", "te": "trailers"}
    block = b"".join(b"\0" + bytes([len(each)]) + each.encode() for pair in headers.items() for each in pair)
    return HTTP2 + http2_frame(4, 0, 0, b"") + http2_frame(1, 4, 1, block) + http2_frame(0, 0, 1, message)


def declared(size, message=b""):
    """A gRPC message that declares this size."""
    return b"\0" + struct.pack("!I", size) + message


def varint(number):
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def large_call(size):
    """The header of a large message of somebody who has no token."""
    header = b"\x08\x08\x12\x20" + b"x" * 32 + b"\x18" + varint(size)  # method, token, bytes
    return call("Large", declared(len(header) + 2, b"\x0a" + varint(len(header)) + header))


def huge_lengths():
    """What declares to be longer than any server's memory, or than it is."""
    yield HTTP2 + http2_frame(4, 0, 0, b"\0" * 6, length=0xFFFFFF)
    yield call("Small", declared(0xFFFFFFFF, b"x" * 64))
    yield call("Large", declared(1 << 20, b"x" * 64))
    yield large_call(1 << 62)
    yield large_call(1 << 29)  # below the server's limit


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

    def most_memory(self, process):
        """That it has ever had, in MiB."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024

    def test_a_thousand_connections_and_huge_lengths_cost_no_memory(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= hard < 2000:
            self.skipTest("needs 2,000 open files")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        cluster = Cluster(1, 1)
        server = self.start_server(cluster, 0)
        server.wait_for("listens at")
        chief = self.start_trainer(cluster, 0, *UNEVALUATED, "--steps", "3000")
        chief.wait_for(STEP)
        before = self.most_memory(server)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))  # after the processes were started: they have the usual limit
        openings = [*garbage(), *huge_lengths()]
        for index in range(1000):
            stranger = socket.create_connection(("127.0.0.1", cluster.ports["ps"][0]), timeout=30)
            self.addCleanup(stranger.close)
            try:
                stranger.sendall(openings[index % len(openings)])
            except OSError:
                continue  # it was shown out
        chief.wait_for(STEP, since=time.monotonic())
        self.assertTrue(chief.is_running(), "it had ended before the strangers were measured")
        self.assertLess(self.most_memory(server) - before, 64)
        self.assertEqual(chief.result()["steps"], 3000)
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

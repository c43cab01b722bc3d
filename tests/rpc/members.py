"""Members of a cluster as processes (rendezvous_member.cpp), started as by hand; ended by id.

BRIGADE_RPC_MEMBER names the program; BRIGADE_TEST_SLOWNESS stretches the limits."""
import os
import queue
import socket
import subprocess
import threading

PROGRAM = os.environ["BRIGADE_RPC_MEMBER"]
SLOWNESS = float(os.environ.get("BRIGADE_TEST_SLOWNESS", 1))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Member:
    def __init__(self, rank, world_size, port, start_timeout, peer_timeout, stderr=subprocess.DEVNULL, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BRIGADE_CLUSTER")}
        environment.update(more)
        self._process = subprocess.Popen(
            [PROGRAM, str(rank), str(world_size), f"127.0.0.1:{port}", str(int(peer_timeout * 1000)),
             str(int(start_timeout * 1000))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")

    def next_line(self, limit):
        return self._lines.get(timeout=limit)

    def send(self, number):
        self._process.send_signal(number)

    def leave(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()

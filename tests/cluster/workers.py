"""Workers of one job as processes on loopback: started as by hand, each with its TF_CONFIG; watched, hurt, and ended by id.

BRIGADE_COMMAND names the command; BRIGADE_TEST_SLOWNESS (1) stretches the limits."""
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fork_server"))
import fork_server

# In the background or under nohup the tests would ignore these, and what they start, too.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

COMMAND = os.environ["BRIGADE_COMMAND"]
SLOWNESS = float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1"))
DEADLINE = 120 * SLOWNESS
PEER_TIMEOUT = 5 * SLOWNESS
# How long the others may take to end after a loss, by default; the rest is for a busy machine.
FOUND_WITHIN = 10 * SLOWNESS
SLACK = 15 * SLOWNESS
# A training that is done in no time.
TINY = ("--model", "mlp", "--hidden", "16", "--dataset", "synthetic", "--train-examples", "256", "--threads-per-replica", "1",
        "--allow-oversubscription", "--eval", "none", "--json")
WORKERS = ("--strategy", "multi_worker_mirrored")
ENDLESS = ("--steps", "100000000")
STEP = re.compile(r"^step (\d+)/")


def free_ports(count):
    """Ports that nobody has, and that the system gives to nobody by itself: so they stay free until they are taken."""
    ports = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(15000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def tf_config(ports, index):
    """As the tutorials write it."""
    return json.dumps({"cluster": {"worker": [f"localhost:{port}" for port in ports]},
                       "task": {"type": "worker", "index": index}})


def environment(**more):
    """Ours, without what says who is in a cluster."""
    own = ("TF_CONFIG", "BRIGADE_CLUSTER", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(own)}, **more}


def wait_until(condition, limit=DEADLINE, pause=0.005):
    """Looks again and again; the deadline fails the test."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("what was waited for did not come")
        time.sleep(pause)


class Process:
    """The command, running; what it writes to stderr is read line by line."""

    def __init__(self, arguments, environment, program=(COMMAND,)):
        command = [*program, *map(str, arguments)]
        self._process = (fork_server.start(command, env=environment) if program == (COMMAND,) else
                         subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        self.pid = self._process.pid
        self._changed = threading.Condition()
        self._lines, self._output = [], []
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True)
                         for each in ((self._process.stderr, self._lines), (self._process.stdout, self._output))]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._changed:
                lines.append((time.monotonic(), line.rstrip("\n")))
                self._changed.notify_all()

    def signal(self, number):
        self._process.send_signal(number)

    def is_running(self):
        return self._process.poll() is None

    def lines(self, since=0.0):
        """What it has written to stderr, after this time."""
        with self._changed:
            return [line for when, line in self._lines if when >= since]

    def wait_for(self, pattern, limit=DEADLINE, since=0.0):
        """When it has written a line in which this is found, and the match; an error if it ends without."""
        end = time.monotonic() + limit
        looked = 0
        while True:
            has_ended = not self.is_running() and not any(reader.is_alive() for reader in self._readers)
            with self._changed:
                for when, line in self._lines[looked:]:
                    match = re.search(pattern, line)
                    if match and when >= since:
                        return when, match
                looked = len(self._lines)
                if has_ended or time.monotonic() > end:
                    raise AssertionError(f"no line like {pattern!r}; {'ended' if has_ended else 'running'}: {self.lines()[-8:]}")
                self._changed.wait(0.05)

    def wait(self, limit=DEADLINE):
        """Its exit code, when it has ended; the deadline fails the test."""
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.lines()[-8:]}") from None
        for reader in self._readers:
            reader.join(limit)
        return code

    def last_line(self):
        lines = self.lines()
        return lines[-1] if lines else ""

    def output(self):
        return "".join(line + "\n" for _, line in self._output)

    def result(self):
        """The object that it wrote to stdout, where it ended well."""
        code = self.wait()
        if code != 0:
            raise AssertionError(f"exit code {code}: {self.lines()[-8:]}")
        return json.loads(self.output().splitlines()[-1])

    def end(self):
        if self.is_running():
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        self._process.stdout.close()
        self._process.stderr.close()


class ClusterTest(unittest.TestCase):
    """A test with a folder of its own, and workers that are gone when it ends."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-cluster-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model_dir = self.folder / "run"

    def start_process(self, *arguments, environment=None, program=(COMMAND,)):
        process = Process(arguments, environment or globals()["environment"](), program)
        self.addCleanup(process.end)
        return process

    def start_worker(self, ports, index, *arguments):
        return self.start_process("train", *WORKERS, *arguments, environment=environment(TF_CONFIG=tf_config(ports, index)))

    def start(self, count, *arguments, ports=None):
        """So many workers, the chief first."""
        ports = ports or free_ports(count)
        return [self.start_worker(ports, index, *arguments) for index in range(count)]

    def train(self, count, *arguments):
        """Trains to the end and returns the chief's result. All must end well, and only the chief speak on stdout."""
        workers = self.start(count, *arguments)
        result = workers[0].result()
        for worker in workers[1:]:
            self.assertEqual(worker.wait(), 0, worker.lines()[-8:])
            self.assertEqual(worker.output(), "")
        return result

    def alone(self, *arguments):
        """The result of the command, in one process."""
        return self.start_process("train", *arguments).result()

    def assert_name(self, survivors, victim, since, limit=FOUND_WITHIN + SLACK):
        """The others end with 1, and say whom they have lost in their last line. Returns the time that the slowest took."""
        for worker in survivors:
            code = worker.wait(max(0.1, since + limit - time.monotonic()))
            self.assertEqual(code, 1, worker.lines()[-8:])
            self.assertIn(f"/job:worker/task:{victim}", worker.last_line())
            self.assertTrue(worker.last_line().startswith("brigade: error: "), worker.last_line())
        return time.monotonic() - since

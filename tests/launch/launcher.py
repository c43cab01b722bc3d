"""Runs `brigade launch` for the tests of this folder, and sees to it that no process of theirs survives them.

BRIGADE_LAUNCHER names the command; BRIGADE_TEST_SLOWNESS stretches the limits."""
import contextlib
import json
import os
import pathlib
import queue
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

COMMAND = os.environ["BRIGADE_LAUNCHER"]
SLOWNESS = float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1"))  # of the build under test: sanitizers cost time
LIMIT = 60 * SLOWNESS
MARK = "BRIGADE_LAUNCH_TEST"  # in the environment of all that a test starts

# A grandchild that does what it can to survive: forks twice, leaves session and group, ignores what can be ignored, and
# holds on to the program's output.
STUBBORN = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.write(1, f"stubborn {os.getpid()}\\n".encode())  # at once, since two processes write here
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


def python(script, *arguments):
    """The command for a Python program."""
    return [sys.executable, "-S", "-c", script, *arguments]


def shell(script):
    return ["/bin/sh", "-c", script]


def free_port():
    """One that nobody has on loopback, and that the system gives to nobody by itself."""
    while True:
        port = random.SystemRandom().randrange(15000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def state(pid):
    """The letter that the system has for a process; nothing for one that is gone or only waits to be waited for."""
    try:
        letter = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if letter in "ZX" else letter


def processes_with(mark):
    """The living processes that have this mark in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                if state(int(folder.name)):
                    found.append(int(folder.name))
        except OSError:
            pass
    return found


def clean_environment(mark, **more):
    """The environment without what a launcher of these tests would have set."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("BRIGADE_") and name not in ("RANK", "WORLD_SIZE")}
    return {**environment, MARK: mark, **more}


class Job:
    """A launcher that runs."""

    def __init__(self, mark, flags, program, prefix=(), **more):
        environment = clean_environment(mark, **more)
        self._process = subprocess.Popen([*prefix, COMMAND, "launch", *map(str, flags), "--", *map(str, program)],
                                         text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=environment)
        self.pid = self._process.pid
        self.output, self.errors = [], []  # lines
        self._news = queue.Queue()
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True)
                         for each in ((self._process.stdout, self.output), (self._process.stderr, self.errors))]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))
            self._news.put(lines[-1])

    def line(self, beginning):
        """The next line, of output or errors, that begins like this; lines before it are passed over."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                line = self._news.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line {beginning!r} in {self.output} {self.errors}") from None
            if line.startswith(beginning):
                return line

    def number(self, beginning):
        """The number at the end of such a line."""
        return int(self.line(beginning).split()[-1])

    def send(self, number):
        self._process.send_signal(number)

    def end(self):
        """Waits for its end: the exit code."""
        code = self._process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)
        return code

    def result(self):
        """What --json wrote."""
        return json.loads(self.output[-1])

    def errors_text(self):
        return "\n".join(self.errors)

    def clean_up(self):
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(LIMIT)
        self._process.stdout.close()
        self._process.stderr.close()


class LaunchTest(unittest.TestCase):
    """A test with a folder of its own, all of whose processes are gone at its end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-launch-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mark = uuid.uuid4().hex
        self.addCleanup(self._kill_what_is_left)

    def _kill_what_is_left(self):
        for pid in processes_with(self.mark):
            with contextlib.suppress(ProcessLookupError):  # it has just gone by itself
                os.kill(pid, signal.SIGKILL)

    def start(self, flags, program, prefix=(), **environment):
        job = Job(self.mark, flags, program, prefix, **environment)
        self.addCleanup(job.clean_up)
        return job

    def run_job(self, flags, program, code=0, prefix=(), **environment):
        """Runs a job to its end, which must be this exit code."""
        job = self.start(flags, program, prefix, **environment)
        self.assertEqual(job.end(), code, job.errors_text())
        return job

    def assert_nothing_is_left(self):
        end = time.monotonic() + LIMIT
        while processes_with(self.mark):
            self.assertLess(time.monotonic(), end, f"left behind: {processes_with(self.mark)}")
            time.sleep(0.01)

    def wait_for_state(self, pid, letters):
        end = time.monotonic() + LIMIT
        while state(pid) not in letters:
            self.assertLess(time.monotonic(), end, f"{pid} is in state {state(pid)}")
            time.sleep(0.01)

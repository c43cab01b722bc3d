"""Two programs that run blocks of work in alternation: one block of the first, one block of the second."""

import json
import os
import selectors
import signal
import subprocess
import time

from harness.estimate import estimate
from harness.running import RunFailed


class BlockProgram:
    """A program that runs a block and prints {"seconds": ...} for each word it reads. It is stopped while the other
    program runs, so that work ahead of its block neither costs the other program time nor helps. Ended with all of its
    processes on exit."""

    def __init__(self, command, timeout):
        self.command, self.timeout = [str(word) for word in command], timeout

    def __enter__(self):
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise RunFailed(f"{self.command[0]} does not start: {error.strerror}") from error
        self.rest = b""
        return self

    def __exit__(self, *_):
        self._signal(signal.SIGCONT)
        self.process.stdin.close()  # end of input: it cleans up and exits
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            pass
        self._signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def seconds(self, word):
        """Runs one block of this word. Raises RunFailed if there is no answer in time."""
        self._signal(signal.SIGCONT)
        try:
            return self._answer_to(word)
        finally:
            self._signal(signal.SIGSTOP)

    def _answer_to(self, word):
        try:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said last is read below
        deadline, last = time.monotonic() + self.timeout, "no message"
        while (line := self._line(deadline)) is not None:
            if line.startswith("{"):
                return json.loads(line)["seconds"]
            last = line or last
        raise RunFailed(f"'{word}' was not done: {last[:200]}")

    def _line(self, deadline):
        """The next line; None at the end of the output. Throws RunFailed at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise RunFailed(f"no answer within {self.timeout:.0f} s")
                read = os.read(self.process.stdout.fileno(), 1 << 16)
                if not read:
                    return None
                self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace").strip()


def compare(ours, theirs, word, pairs, warm_up=3):
    """Our seconds over theirs, one ratio per pair; every other pair starts with ours, so that drift favors neither."""
    for _ in range(warm_up):
        ours.seconds(word), theirs.seconds(word)
    mine, peers = [], []
    for number in range(pairs):
        for program, seconds in [(ours, mine), (theirs, peers)][::1 if number % 2 else -1]:
            seconds.append(program.seconds(word))
    return {**estimate([a / b for a, b in zip(mine, peers)]), "pairs": pairs,
            "ours_milliseconds": 1e3 * estimate(mine)["median"], "theirs_milliseconds": 1e3 * estimate(peers)["median"]}

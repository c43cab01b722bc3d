"""Hosts simulated by namespaces of this one: each with its own name, processes and network, joined by a virtual cable.
Where that is not permitted, or `ip`, `unshare` or `nsenter` is missing, OSError says so, and the test skips."""
import os
import subprocess
import time

DEADLINE = 30


def run(*command):
    """Runs it; OSError with its words where it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")


class Host:
    """One made-up host, until `end`. `namespaces` are unshare's flags; without --net it is on this machine's network."""

    def __init__(self, name, namespaces=("--uts", "--pid", "--net")):
        # Its first process lives as long as the pipe; when that ends, so do all others of its process namespace.
        self._first = subprocess.Popen(["unshare", *namespaces, *(("--fork", "--kill-child", "--mount-proc") if "--pid" in namespaces
                                                                   else ()), "cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._flags = [*namespaces, *(("--mount",) if "--pid" in namespaces else ())]
        try:
            self._wait_for_first()
            self._pid = self._find_first()
            run(*self.enter("hostname", name))
        except BaseException:
            self.end()
            raise

    def _wait_for_first(self):
        """`cat` answers from inside of the namespaces."""
        self._first.stdin.write(b"\n")
        self._first.stdin.flush()
        if self._first.stdout.read(1) != b"\n":
            raise OSError(self._first.stderr.read().decode().strip())

    def _find_first(self):
        pid = self._first.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return int((children.read().split() or [pid])[0])

    def enter(self, *command):
        """The command that runs `command` there."""
        return ("nsenter", "--target", self._pid, *self._flags, *command)

    def connect(self, cable, address):
        """Gives it this end of a cable, with its address, and loopback."""
        run("ip", "link", "set", cable, "netns", self._pid)
        run(*self.enter("ip", "address", "add", f"{address}/24", "dev", cable))
        run(*self.enter("ip", "link", "set", cable, "up"))
        run(*self.enter("ip", "link", "set", "lo", "up"))

    def end(self):
        for pipe in (self._first.stdin, self._first.stdout, self._first.stderr):
            pipe.close()
        try:
            self._first.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._first.kill()
            self._first.wait()


def connect(one, other, addresses):
    """A cable between two hosts, which has these addresses at its ends. It goes with their networks."""
    ends = [f"bg{os.getpid() % 100000}{side}{time.monotonic_ns() % 10000}" for side in "ab"]
    run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for host, end, address in zip((one, other), ends, addresses):
        host.connect(end, address)

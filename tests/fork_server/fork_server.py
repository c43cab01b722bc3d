"""Starts the command under test many times for the price of loading libtorch once (see fork_server.cpp).

BRIGADE_FORK_SERVER names the library that makes a program a fork server. Without it, each start is a plain one."""
import contextlib
import functools
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading

_LIBRARY = os.environ.get("BRIGADE_FORK_SERVER")
_NUMBER = struct.Struct("=i")


class ForkServer:
    """The program, loaded, that forks for each process. Thread-safe. It and its processes end with this process."""

    def __init__(self, program):
        self._program = program
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            # Never waited for: it ends when the socket is closed.
            self._process = subprocess.Popen([program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env={
                **os.environ, "LD_PRELOAD": _LIBRARY, "BRIGADE_FORK_SERVER_SOCKET": str(theirs.fileno())})

    def start(self, arguments, environment, streams):
        """Starts a process with these files as its standard streams. Returns the pipe that its id and its status come through."""
        words = [os.getcwd(), self._program, *arguments, *(f"{name}={value}" for name, value in environment.items())]
        strings = b"".join(os.fsencode(word) + b"\0" for word in words)
        status, theirs = os.pipe()
        with self._lock:
            socket.send_fds(self._socket, [struct.pack("=II", len(strings), len(arguments) + 1)],
                            [*(stream.fileno() for stream in streams), theirs])
            self._socket.sendall(strings)
        os.close(theirs)
        return status


_server_of = functools.cache(ForkServer)  # by program


def _pipe(stack):
    """Its end to read from, and the one to write to, which is closed with `stack`."""
    reading, writing = os.pipe()
    return open(reading), stack.enter_context(open(writing, "wb"))


class Process:
    """As subprocess.Popen(arguments, stdin=DEVNULL, text=True, ...), but a fork server starts the process."""

    def __init__(self, arguments, *, stdout, stderr, env=None):
        self.args = [str(argument) for argument in arguments]
        self.returncode = self.stdout = self.stderr = None
        environment = os.environ if env is None else env
        with contextlib.ExitStack() as stack:
            if stdout == subprocess.PIPE:
                self.stdout, stdout = _pipe(stack)
            if stderr == subprocess.PIPE:
                self.stderr, stderr = _pipe(stack)
            stdin = stack.enter_context(open(os.devnull, "rb"))
            self._status = _server_of(self.args[0]).start(self.args[1:], environment, (stdin, stdout, stderr))
        self.pid = self._read()

    def _read(self):
        content = os.read(self._status, _NUMBER.size)
        if len(content) != _NUMBER.size:
            raise OSError(f"the fork server of {self.args[0]} has ended")
        return _NUMBER.unpack(content)[0]

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = os.waitstatus_to_exitcode(self._read())
            os.close(self._status)
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """What it writes to its two pipes until it ends; nothing when called again."""
        if self.stdout.closed:
            return "", ""
        texts = {}
        readers = [threading.Thread(target=lambda stream=stream: texts.update({stream: stream.read()}), daemon=True)
                   for stream in (self.stdout, self.stderr)]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        self.stdout.close()
        self.stderr.close()
        return texts[self.stdout], texts[self.stderr]


def _is_for_a_server(env):
    """Not where the dynamic linker is to do something else than the server's."""
    return _LIBRARY is not None and not any(name.startswith("LD_") and value != os.environ.get(name) for name, value in (env or {}).items())


def start(arguments, *, env=None):
    """The process, with its output in pipes, started by a fork server where there is one."""
    if not _is_for_a_server(env):
        return subprocess.Popen([*map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=env)
    return Process(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


def run(arguments, *, timeout, env=None):
    """subprocess.run() with its output captured as text and nothing to read, by a fork server where there is one."""
    if not _is_for_a_server(env):
        return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, env=env)
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = Process(arguments, stdout=stdout, stderr=stderr, env=env)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout.read(), stderr.read())

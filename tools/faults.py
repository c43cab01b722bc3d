"""What can happen to a process of a training, and the means to do it: SIGKILL, SIGSTOP, closed sockets, a full disk, and a
machine ten times as slow."""
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import threading

_libc = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438
_CLONE_NEWNS = 0x20000
_MS_REMOUNT, _MS_REC, _MS_PRIVATE = 0x20, 0x4000, 0x40000


class NotPermitted(Exception):
    """The system does not let us."""


def _check(result, what):
    if result < 0:
        raise NotPermitted(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _sockets_of(pid):
    """Its TCP connections, as sockets of our own."""
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except OSError:
                continue
            copy = _libc.syscall(_PIDFD_GETFD, process, int(name), 0)
            if copy < 0 and ctypes.get_errno() == 1:  # EPERM
                raise NotPermitted("taking a socket of another process: not permitted")
            if copy >= 0:
                yield socket.socket(fileno=copy)
    finally:
        os.close(process)


def cut_connections(pid):
    """Ends all TCP connections of a process, in both directions, as a cut cable or a firewall would. Returns their number."""
    cut = 0
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        for each in _sockets_of(pid):
            with each, contextlib.suppress(OSError):
                is_tcp = each.family in (socket.AF_INET, socket.AF_INET6) and each.type == socket.SOCK_STREAM
                if is_tcp and each.getpeername():
                    each.shutdown(socket.SHUT_RDWR)
                    cut += 1
    return cut


def enter_own_mounts():
    """What is mounted from here on, only this process and those it starts see; it goes with them. Throws NotPermitted."""
    _check(_libc.unshare(_CLONE_NEWNS), "mounting a small disk")
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mounting a small disk")


class SmallDisk:
    """A folder with little space. Needs `enter_own_mounts`."""

    def __init__(self, path, megabytes=64):
        self.path = pathlib.Path(path)
        self.path.mkdir()
        self._size = megabytes << 20
        self._mount(0, self._size)

    def _mount(self, flags, size):
        _check(_libc.mount(b"tmpfs", bytes(self.path), b"tmpfs", flags, f"size={size}".encode()), "mounting a small disk")

    def remove(self):
        _check(_libc.umount2(bytes(self.path), 0), "unmounting a small disk")
        self.path.rmdir()

    def fill(self):
        """Shrinks it to the size of its content, immediately."""
        while True:
            space = os.statvfs(self.path)
            with contextlib.suppress(NotPermitted):  # more has come meanwhile
                used = max(1, space.f_blocks - space.f_bfree)  # 0 would be no limit
                return self._mount(_MS_REMOUNT, used * space.f_frsize)

    def empty(self):
        self._mount(_MS_REMOUNT, self._size)


class Pulses:
    """Lets a process run a tenth of the time, until stopped."""
    STOPPED, RUNNING = 0.045, 0.005  # seconds

    def __init__(self, pid):
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self):
        self._ended.set()
        self._thread.join()

    def _run(self):
        with contextlib.suppress(ProcessLookupError):
            while not self._ended.is_set():
                os.kill(self._pid, signal.SIGSTOP)
                self._ended.wait(self.STOPPED)
                os.kill(self._pid, signal.SIGCONT)
                self._ended.wait(self.RUNNING)


class Means:
    """A kind of fault: `strike` does it and says whether there was anything to hurt; `relieve`, called again and again
    afterwards, ends what has to end."""
    name = ""
    may_be_survived = False  # without a restart
    ranks = None  # whom it can hit; all

    def sign(self, rank):
        """What a line has that reports it, and names the victim."""
        return rf"Rank {rank} failed first|/job:worker/task:{rank} \([^)]*\) was lost"

    def strike(self, pid, disk):
        raise NotImplementedError

    def relieve(self, seconds, is_reported):
        pass

    def end(self):
        pass


class Signal(Means):
    def __init__(self, number):
        self.name = signal.Signals(number).name
        self._number = number

    def strike(self, pid, disk):
        os.kill(pid, self._number)
        return True


class ClosedSocket(Means):
    name = "socket"

    def strike(self, pid, disk):
        return cut_connections(pid) > 0


class FullDisk(Means):
    """All write to one folder, and of those of a training the chief decides what becomes of it."""
    name = "disk"
    may_be_survived = True  # a checkpoint that fails is followed by another
    ranks = (0,)
    PATIENCE = 20.0  # seconds, if nothing needs the space

    def __init__(self):
        self._disk = None

    def sign(self, rank):
        return r"cannot \w+ \S+: No space left on device"

    def strike(self, pid, disk):
        self._disk = disk
        disk.fill()
        return True

    def relieve(self, seconds, is_reported):
        if is_reported or seconds > self.PATIENCE:
            self.end()

    def end(self):
        if self._disk:
            self._disk.empty()
        self._disk = None


class Slow(Means):
    name = "slow"
    may_be_survived = True

    def __init__(self, seconds):
        self._seconds = seconds
        self._pulses = None

    def sign(self, rank):
        return rf"has waited \d+ ms for [^;]*/job:worker/task:{rank}\b|Waiting for .*rank {rank}\b"

    def strike(self, pid, disk):
        self._pulses = Pulses(pid)
        return True

    @property
    def is_over(self):
        return self._pulses is None

    def relieve(self, seconds, is_reported):
        if is_reported or seconds > self._seconds:
            self.end()

    def end(self):
        if self._pulses:
            self._pulses.end()
        self._pulses = None


def means_of(name, slow_for):
    """The kind of fault of this name; a slow one ends after so many seconds, or when it was reported."""
    if name in ("SIGKILL", "SIGSTOP"):
        return Signal(signal.Signals[name])
    return {"socket": ClosedSocket, "disk": FullDisk, "slow": lambda: Slow(slow_for)}[name]()


NAMES = ("SIGKILL", "SIGSTOP", "socket", "disk", "slow")

"""Networks of a test's own. Where that is not permitted, OSError says so, and the test skips."""
import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def enter():
    """Gives this thread its own network with loopback up, which processes that it starts inherit. Returns how to leave
    it."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        os.close(before)
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def leave():
        libc.setns(before, CLONE_NEWNET)
        os.close(before)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return leave

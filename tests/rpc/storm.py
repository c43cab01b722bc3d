"""Connections to a port from a process of its own, as many as it can make: garbage, silence, and what begins as a member does.

storm.py PORT SECONDS: writes "begun", and at the end how many there were and how many of them failed."""
import collections
import os
import socket
import sys
import time

BEGINNINGS = (b"", os.urandom(100), b"", b"GET / HTTP/1.1\r\n\r\n", b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"",
              b"\x16\x03\x01" + os.urandom(60))
OPEN = 300  # so many are left open


def main(port, seconds):
    end = time.monotonic() + seconds
    count = failed = 0
    held = collections.deque()
    while time.monotonic() < end:
        stranger = socket.socket()
        stranger.setblocking(False)
        count += 1
        if count == 100:
            print("begun", flush=True)
        try:
            stranger.connect(("127.0.0.1", port))
        except BlockingIOError:
            pass
        except OSError:
            failed += 1
        words = BEGINNINGS[count % len(BEGINNINGS)]
        if words:
            try:
                stranger.send(words)
            except OSError:
                failed += 1
        held.append(stranger)
        if len(held) > OPEN:
            held.popleft().close()
    print(count, failed, flush=True)


main(int(sys.argv[1]), float(sys.argv[2]))

"""Runs one program to its end or its deadline, and leaves none of its processes running."""

import json
import os
import signal
import subprocess


class RunFailed(Exception):
    """A program did not print its results; the text says why, in one line."""


def _end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.stdout.close()
    process.stderr.close()


def run(command, timeout, environment=None):
    """Standard output of `command`. Throws RunFailed if it fails, is missing, or passes `timeout` seconds."""
    try:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **(environment or {})}, start_new_session=True)
    except OSError as error:
        raise RunFailed(f"{command[0]} does not start: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"no end within {timeout:.0f} s") from None
    finally:
        _end_group(process)
    if process.returncode != 0:
        lines = [line for line in err.splitlines() if line.strip()]
        raise RunFailed(f"exit {process.returncode}: {lines[-1].strip()[:200] if lines else 'no message'}")
    return out


def run_for_json(command, timeout, environment=None):
    """The JSON objects, one a line, that `command` prints. Throws RunFailed if there is none."""
    found = []
    for line in run(command, timeout, environment).splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    if not found:
        raise RunFailed("it printed no results")
    return found

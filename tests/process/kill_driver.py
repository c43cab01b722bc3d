"""Starts a training, kills it somewhere, and says where it was."""
import dataclasses
import json
import mmap
import os
import pathlib
import struct
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cli", "fork_server")]
import fork_server
import idx_files

TARGET = os.environ["BRIGADE_KILL_TARGET"]
SLOWNESS = float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1"))  # of the build under test: sanitizers cost time
DEADLINE = 240 * SLOWNESS
EXAMPLES = 250

# The page that the training writes: see progress_page.h.
PAGE_BYTES = 4096
LAYOUT = struct.Struct("<IIqqqq")
TRAINER = ("start-up", "start-up", "restore", "between", "step", "end")
WRITER = ("", "save: writing", "save: publishing", "save: removing")


@dataclasses.dataclass(frozen=True)
class Progress:
    trainer: str
    writer: str  # "" if no checkpoint is being written
    step: int
    published: int  # the step of the newest checkpoint that has its name
    begun: int  # the step this process began with, -1 until it has
    broken: int  # checkpoints that it passed over

    @property
    def phase(self):
        """What a kill now interrupts: a save in the background counts rather than the step that runs beside it."""
        return self.writer or self.trainer


class Page:
    """The memory that a training shares with us."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(PAGE_BYTES))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), PAGE_BYTES)

    def clear(self):
        self._memory[: LAYOUT.size] = LAYOUT.pack(0, 0, 0, -1, -1, 0)

    def read(self):
        trainer, writer, *numbers = LAYOUT.unpack(self._memory[: LAYOUT.size])
        return Progress(TRAINER[trainer], WRITER[writer], *numbers)

    def close(self):
        self._memory.close()


class Life:
    """One process, from its start to its end; gone when the block ends."""

    def __init__(self, data_dir, checkpoint_dir, page, replicas):
        self._page = page
        page.clear()
        arguments = (data_dir, checkpoint_dir, page.path, replicas)
        self._process = fork_server.start([TARGET, *arguments])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def wait_until(self, reached):
        """Returns when `reached` holds for the progress, or when the process has ended. The deadline fails the test."""
        end = time.monotonic() + DEADLINE
        while not reached(self._page.read()) and self._process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"the training stalls: {self._page.read()}")
            time.sleep(0.0001)  # only to look again; nothing depends on its length

    def kill(self):
        """Kills it and returns where it was."""
        self._process.kill()
        self._process.wait(DEADLINE)
        where = self._page.read()
        if self._process.returncode >= 0 and where.trainer != "end":
            raise AssertionError(f"ended by itself with {self._process.returncode}: {self._process.stderr.read()}")
        return where

    def result(self):
        """Waits for its end and returns what it says of it."""
        output, errors = self._process.communicate(timeout=DEADLINE)
        if self._process.returncode != 0:
            raise AssertionError(f"exit code {self._process.returncode}: {errors}")
        return json.loads(output)


def write_data(folder):
    idx_files.write_fashion_mnist(folder, train=EXAMPLES)

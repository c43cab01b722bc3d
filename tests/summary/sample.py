"""Runs the program that writes event files for the tests of this folder."""
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["BRIGADE_EVENT_FILE_SAMPLE"]
DEADLINE = 30  # seconds; only a program that hangs takes so long


def event_file(folder):
    """The only event file in a folder."""
    [path] = pathlib.Path(folder).glob("events.out.tfevents.*")
    return path


class SampleTest(unittest.TestCase):
    """A test with its own folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-summary-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_all(self):
        """One event file with a summary of every kind."""
        subprocess.run([PROGRAM, "all", self.folder], check=True, timeout=DEADLINE)
        return event_file(self.folder)

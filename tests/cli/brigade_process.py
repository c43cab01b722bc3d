"""Runs the built command for the tests of this folder."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fork_server"))
import fork_server

# In the background or under nohup the tests would ignore these, and what they start, too.
for _number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

COMMAND = os.environ["BRIGADE_COMMAND"]
FRONT = os.environ["BRIGADE_FRONT"]  # which users call; it starts COMMAND
SLOWNESS = float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1"))  # of the build under test: sanitizers cost time
DEADLINE = 120 * SLOWNESS
TWO_REPLICAS = ("--strategy", "mirrored", "--devices", "cpu:0,cpu:1", "--allow-oversubscription")
SMALL = ("--dataset", "synthetic", "--train-examples", "256", "--batch-size", "16")
MLP = ("--model", "mlp", *SMALL)


def run(*arguments, program=COMMAND):
    """Runs `brigade` to its end: status, stdout, stderr. Killed at the deadline, which fails the test."""
    if program == COMMAND:
        return fork_server.run([COMMAND, *arguments], timeout=DEADLINE)
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def started(*arguments, program=(COMMAND,)):
    """`brigade`, running, with its output in pipes; gone when the block ends."""
    process = subprocess.Popen([*program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class CommandTest(unittest.TestCase):
    """A test with its own folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model_dir = self.folder / "run"

    def succeed(self, *arguments):
        """Runs a command that must exit with 0 and returns the object in the last line of its output."""
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.splitlines()[-1])

    def refuse(self, *arguments, saying):
        """Runs a command that must exit with 2, write nothing to stdout, and one line to stderr that has these words."""
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("brigade: error: "), result.stderr)
        for words in saying:
            self.assertIn(words, result.stderr)

    def refuse_training(self, *arguments, saying):
        """The same for `brigade train`, which moreover must not have made its model directory."""
        self.refuse("train", "--model-dir", self.model_dir, *arguments, saying=saying)
        self.assertFalse(self.model_dir.exists())

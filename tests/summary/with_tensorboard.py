"""The content of a folder as read by TensorBoard in a separate process."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

DEADLINE = 300  # seconds; it is slow to load
READER = pathlib.Path(__file__).resolve().with_name("read_with_tensorboard.py")

needs_tensorboard = unittest.skipIf(importlib.util.find_spec("tensorboard") is None,
                                    "the package tensorboard is not installed (tools/install_python.py)")


def found_by_tensorboard(folder):
    result = subprocess.run([sys.executable, "-B", READER, folder], capture_output=True, text=True, timeout=DEADLINE)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])

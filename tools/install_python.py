#!/usr/bin/env python3
"""Puts the Python packages that read our files in the tests (TensorBoard, safetensors) into DEPS/python.

usage: install_python.py DEPS

Without them, as where no network is, those tests are skipped with a reason; so a failed download is reported and is not an error.
Nothing is installed that TensorBoard's reader does not import (its server would also want grpcio). Everything is unpacked
into a temporary folder and renamed at the end, so an interrupted run leaves nothing that looks complete.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from install_torch import locked, say

PACKAGES = ["tensorboard==2.21.0", "safetensors==0.8.0", "numpy==2.4.6", "pillow==13.0.0", "protobuf==7.36.2", "absl-py==2.5.1",
            "werkzeug==3.1.9", "markupsafe==3.0.4", "markdown==3.11.3", "packaging==26.3"]
STAMP = "VERSIONS"
DEADLINE = 180  # seconds


def versions():
    """What a whole folder's stamp says: compiled modules are of one Python."""
    return "\n".join([sys.implementation.cache_tag, *PACKAGES]) + "\n"


def is_complete(folder):
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == versions()


def install(deps):
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=deps) as temporary:
        folder = pathlib.Path(temporary) / "python"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore",
                   "--no-deps", "--no-compile", "--only-binary=:all:", "--retries", "1", "--timeout", "10",
                   "--target", str(folder), *PACKAGES]
        subprocess.run(command, check=True, timeout=DEADLINE)
        (folder / STAMP).write_text(versions())
        shutil.rmtree(deps / "python", ignore_errors=True)
        folder.rename(deps / "python")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    deps = pathlib.Path(sys.argv[1])
    with locked(deps):
        if is_complete(deps / "python"):
            return
        say("downloading Python packages for the tests (about 30 MB, once)")
        try:
            install(deps)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            say("pip could not download them: tests that read our files with TensorBoard or safetensors will be skipped")


if __name__ == "__main__":
    main()

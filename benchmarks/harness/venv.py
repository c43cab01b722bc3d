"""The peers' virtual environment: made and filled on the first run, checked on later ones."""

import pathlib
import sys

from harness.running import RunFailed, run

# What the peers need, as their users install them. torch's PyPI wheel is a CUDA build that cannot be imported without
# NVIDIA's libraries, GPU or not; pip installs them with it.
PACKAGES = {"torch": "torch==2.11.0", "tensorflow": "tensorflow-cpu==2.21.0", "PIL": "pillow==12.0.0",
            "torchvision": "torchvision==0.26.0"}
INSTALL_SECONDS = 900
IMPORT_SECONDS = 120


class Venv:
    """Thread-safety: none needed; the harness is one thread."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.python = self.folder / "bin" / "python"
        self.versions = {}

    def provide(self, module, install=True, say=lambda text: None):
        """Makes `import module` work. Throws RunFailed with the reason if that cannot be."""
        if module in self.versions:
            return
        wanted = PACKAGES[module].split("==")[1]
        try:
            version = self._version(module)
        except RunFailed:
            version = None
        if version is None or version.split("+")[0] != wanted:
            if not install:
                raise RunFailed(f"{PACKAGES[module]} is not in {self.folder}, and --no-install was given")
            say(f"installing {PACKAGES[module]} into {self.folder} (minutes, the first time only)")
            self._install(PACKAGES[module])
            version = self._version(module)
        self.versions[module] = version

    def _version(self, module):
        code = f"import {module}; print({module}.__version__)"
        return run([self.python, "-c", code], IMPORT_SECONDS).strip().splitlines()[-1]

    def _install(self, requirement):
        if not self.python.exists():
            # Without pip: Debian's Python has venv but not the part of it that brings pip along.
            run([sys.executable, "-m", "venv", "--without-pip", self.folder], 60)
        try:
            run([sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet",
                 "--disable-pip-version-check", requirement], INSTALL_SECONDS)
        except RunFailed as error:
            raise RunFailed(f"pip cannot install {requirement}: {error}") from error

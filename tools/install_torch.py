#!/usr/bin/env python3
"""Puts the part of libtorch that a CPU build needs into DEPS/site (headers, four libraries, two CUDA runtime libraries).

usage: install_torch.py DEPS [CALLER]

CALLER is the command that calls it: its name comes before every message, and with one it says where libtorch is.

The PyPI wheel is a CUDA build of 530 MB; its CPU library still names libcudart and libcupti, which come from two small
wheels. Everything is unpacked into a temporary folder and renamed at the end, so an interrupted run leaves nothing that looks complete.
"""
import contextlib
import fcntl
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEELS = ["torch==2.11.0", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"]
STAMP = "VERSIONS"
WANTED = re.compile(
    r"torch/include/.*"
    r"|torch/lib/(libtorch_cpu\.so|libc10\.so|libgomp\.so\.1|libtorch_global_deps\.so)"
    r"|nvidia/cu13/lib/libcu[^/]*\.so[^/]*"
)
REQUIRED = [
    "torch/include/torch/headeronly/version.h",
    "torch/include/torch/csrc/api/include/torch/nn/module.h",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libc10.so",
    "torch/lib/libgomp.so.1",
    "torch/lib/libtorch_global_deps.so",
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
]


def caller():
    return sys.argv[2] if len(sys.argv) > 2 else "dev"


def say(text):
    print(f"{caller()}: {text}", file=sys.stderr, flush=True)


def versions():
    return "\n".join(WHEELS) + "\n"


def header_version(site):
    """The version that the unpacked headers state, as '2.11.0'; None if they do not."""
    text = (site / "torch/include/torch/headeronly/version.h").read_text()
    parts = [re.search(rf"#define TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part[1] for part in parts) if all(parts) else None


def is_complete(site):
    """Whether `site` holds these versions. A tree without a stamp that is whole (unpacked by hand) gets one."""
    if not all((site / name).is_file() for name in REQUIRED):
        return False
    stamp = site / STAMP
    if stamp.is_file():
        return stamp.read_text() == versions()
    if f"torch=={header_version(site)}" != WHEELS[0]:
        return False
    stamp.write_text(versions())
    return True


def download(folder):
    say("downloading libtorch (about 530 MB, once): " + ", ".join(WHEELS))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--dest", str(folder), *WHEELS]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def unpack(wheel, site):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if WANTED.fullmatch(name) and not name.endswith("/")]
        archive.extractall(site, names)


def install(deps):
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=deps) as temporary:
        work = pathlib.Path(temporary)
        site = work / "site"
        for wheel in download(work):
            say(f"unpacking {wheel.name}")
            unpack(wheel, site)
            wheel.unlink()
        missing = [name for name in REQUIRED if not (site / name).is_file()]
        if missing:
            raise SystemExit(f"{caller()}: the wheels lack {', '.join(missing)}")
        (site / STAMP).write_text(versions())
        shutil.rmtree(deps / "site", ignore_errors=True)
        site.rename(deps / "site")


@contextlib.contextmanager
def locked(deps):
    """Makes the folder, keeps other installers out of it, and removes what one that was killed has left."""
    deps.mkdir(parents=True, exist_ok=True)
    with open(deps / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two parallel `./dev`: the second waits, then finds it done
        for left_over in deps.glob("unpacking-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        yield


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    deps = pathlib.Path(sys.argv[1])
    with locked(deps):
        if not is_complete(deps / "site"):
            try:
                install(deps)
            except subprocess.CalledProcessError as error:
                raise SystemExit(f"{caller()}: error: pip download failed (exit {error.returncode}); is pip installed (Debian: "
                                 "apt install python3-pip), and PyPI reachable?")
    if len(sys.argv) > 2:
        say(f"libtorch {header_version(deps / 'site')} is in {deps / 'site' / 'torch'}")


if __name__ == "__main__":
    main()

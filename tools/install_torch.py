#!/usr/bin/env python3
"""Puts the part of libtorch that a build needs into a folder of DEPS, from PyPI's wheels alone.

usage: install_torch.py [--cuda] DEPS [CALLER]

  DEPS/site       what a CPU build needs: headers, four libraries, two CUDA runtime libraries (500 MB)
  DEPS/site-cuda  with --cuda: also libtorch_cuda, NCCL, cuDNN and CUDA's other libraries and headers (3.6 GB)

CALLER is the command that calls it: its name comes before every message, and with one it says where libtorch is.

The PyPI wheel is a CUDA build of 530 MB; its CPU library still names libcudart and libcupti, which come from two small
wheels. Everything is unpacked into a temporary folder and renamed at the end, so an interrupted run leaves nothing that looks complete.
"""
import argparse
import contextlib
import dataclasses
import fcntl
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

STAMP = "VERSIONS"
VERSION_HEADER = "torch/include/torch/headeronly/version.h"


@dataclasses.dataclass(frozen=True)
class Edition:
    """What one kind of build needs."""
    folder: str  # in DEPS
    size: str  # of the download
    wheels: tuple  # torch first
    wanted: re.Pattern  # files of the wheels
    required: tuple  # some of them, without which nothing builds


CPU = Edition(
    folder="site",
    size="about 530 MB",
    wheels=("torch==2.11.0", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"),
    wanted=re.compile(
        r"torch/include/.*"
        r"|torch/lib/(libtorch_cpu\.so|libc10\.so|libgomp\.so\.1|libtorch_global_deps\.so)"
        r"|nvidia/cu13/lib/libcu[^/]*\.so[^/]*"),
    required=(
        VERSION_HEADER,
        "torch/include/torch/csrc/api/include/torch/nn/module.h",
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libc10.so",
        "torch/lib/libgomp.so.1",
        "torch/lib/libtorch_global_deps.so",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libcupti.so.13",
    ))

# The versions are those that the torch wheel requires; crt has the headers that CUDA's own include, cccl those of NCCL's.
CUDA = Edition(
    folder="site-cuda",
    size="about 2 GB",
    wheels=(*CPU.wheels,
            "nvidia-cublas==13.1.0.3", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-nvrtc==13.0.88", "nvidia-cudnn-cu13==9.19.0.56",
            "nvidia-cufft==12.0.0.61", "nvidia-cufile==1.15.1.6", "nvidia-curand==10.4.0.35", "nvidia-cusolver==12.0.4.66",
            "nvidia-cusparse==12.6.3.3", "nvidia-cusparselt-cu13==0.8.0", "nvidia-nccl-cu13==2.28.9",
            "nvidia-nvjitlink==13.0.88", "nvidia-nvshmem-cu13==3.4.5", "nvidia-nvtx==13.0.85"),
    wanted=re.compile(
        r"torch/include/.*"
        r"|torch/lib/lib(torch_cpu|torch_cuda|torch_cuda_linalg|torch_nvshmem|torch_global_deps|c10|c10_cuda|caffe2_nvrtc)\.so"
        r"|torch/lib/libgomp\.so\.1"
        r"|nvidia/[^/]+/include/.*"
        r"|nvidia/[^/]+/lib/lib[^/]*\.so[^/]*"),
    required=(
        *CPU.required,
        "torch/lib/libtorch_cuda.so",
        "torch/lib/libtorch_cuda_linalg.so",
        "torch/lib/libtorch_nvshmem.so",
        "torch/lib/libc10_cuda.so",
        "torch/lib/libcaffe2_nvrtc.so",
        "nvidia/cu13/include/cuda_runtime_api.h",
        "nvidia/cu13/include/crt/host_defines.h",
        "nvidia/cu13/include/cublas_v2.h",
        "nvidia/cu13/include/cusparse.h",
        "nvidia/cu13/include/cusolverDn.h",
        "nvidia/cu13/lib/libcublas.so.13",
        "nvidia/cu13/lib/libcublasLt.so.13",
        "nvidia/cu13/lib/libcufft.so.12",
        "nvidia/cu13/lib/libcufile.so.0",
        "nvidia/cu13/lib/libcurand.so.10",
        "nvidia/cu13/lib/libcusolver.so.12",
        "nvidia/cu13/lib/libcusparse.so.12",
        "nvidia/cu13/lib/libnvJitLink.so.13",
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia/cusparselt/lib/libcusparseLt.so.0",
        "nvidia/nccl/include/nccl.h",
        "nvidia/nccl/lib/libnccl.so.2",
        "nvidia/nvshmem/lib/libnvshmem_host.so.3",
    ))


def caller():
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    return names[1] if len(names) > 1 else "dev"


def say(text):
    print(f"{caller()}: {text}", file=sys.stderr, flush=True)


def versions(edition):
    return "\n".join(edition.wheels) + "\n"


def header_version(site):
    """The version that the unpacked headers state, as '2.11.0'; None if they do not."""
    text = (site / VERSION_HEADER).read_text()
    parts = [re.search(rf"#define TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part[1] for part in parts) if all(parts) else None


def missing_files(edition, site):
    return [name for name in edition.required if not (site / name).is_file()]


def is_complete(edition, site):
    """Whether `site` holds these versions. A tree without a stamp that is whole (unpacked by hand) gets one."""
    if missing_files(edition, site):
        return False
    stamp = site / STAMP
    if stamp.is_file():
        return stamp.read_text() == versions(edition)
    if f"torch=={header_version(site)}" != edition.wheels[0]:
        return False
    stamp.write_text(versions(edition))
    return True


def download(edition, folder):
    say(f"downloading libtorch ({edition.size}, once): " + ", ".join(edition.wheels))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--dest", str(folder), *edition.wheels]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def unpack(edition, wheel, site):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if edition.wanted.fullmatch(name) and not name.endswith("/")]
        archive.extractall(site, names)


def install(edition, deps):
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=deps) as temporary:
        work = pathlib.Path(temporary)
        site = work / "site"
        for wheel in download(edition, work):
            say(f"unpacking {wheel.name}")
            unpack(edition, wheel, site)
            wheel.unlink()
        missing = missing_files(edition, site)
        if missing:
            raise SystemExit(f"{caller()}: the wheels lack {', '.join(missing)}")
        (site / STAMP).write_text(versions(edition))
        shutil.rmtree(deps / edition.folder, ignore_errors=True)
        site.rename(deps / edition.folder)


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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="what a build for GPUs needs, in DEPS/site-cuda")
    parser.add_argument("deps", type=pathlib.Path, metavar="DEPS")
    parser.add_argument("caller", nargs="?", metavar="CALLER", help="the command that calls it")
    options = parser.parse_args()
    edition = CUDA if options.cuda else CPU
    with locked(options.deps):
        if not is_complete(edition, options.deps / edition.folder):
            try:
                install(edition, options.deps)
            except subprocess.CalledProcessError as error:
                raise SystemExit(f"{caller()}: error: pip download failed (exit {error.returncode}); is pip installed (Debian: "
                                 "apt install python3-pip), and PyPI reachable?")
    if options.caller:
        site = options.deps / edition.folder
        say(f"libtorch {header_version(site)} is in {site / 'torch'}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A session on a machine with a GPU that was lent for minutes and has no registries: only torch, its CUDA libraries and Python.

usage: gpu_session.py pack BUILD FOLDER     here: what must travel, at most 64 MiB, from a build of the preset gpu
       gpu_session.py run FOLDER OUT [--torch DIR] [--seconds N]
                                            there: the checks and measurements in their order, each with its own time limit,
                                            until N seconds (default 570, for calls of 10 minutes) are over. Goes on where the
                                            last call stopped. Writes OUT/results.json after each step
       gpu_session.py table RESULTS         the measurements as a table for docs/benchmarks.md, and which checks passed

The order is that of what decides most: devices, the tests without the card, those on it, then speed.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

MOST_BYTES = 64 * 2**20
PROGRAMS = ("brigade", "brigade-core", "device_tests", "comm_tests", "gpu_tests")
# What every Linux with the lent machine's torch has, or must have in its own version: not packed.
OF_THE_MACHINE = re.compile(r"(ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libgcc_s\.|linux-vdso|"
                            r"libtorch|libc10|libgomp|libcu|libnv|libnccl|libcaffe2)")
BLOCKS = 5  # measurements of each kind


class SessionFailed(Exception):
    """The text says why, in one line."""


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    command: tuple  # the first word is a program of the folder
    seconds: int  # after which it is killed
    hides_card: bool = False
    measures: bool = False  # prints one JSON object, with images_per_second
    under: tuple = ()  # a program of the machine that runs the command, with its arguments


def bench(*arguments):
    return ("brigade", "bench", "--json", *arguments)


GPU = ("--strategy", "one_device", "--devices", "gpu:0")
MNIST = ("--model", "mnist_cnn", "--batch-size", "128", "--warmup-steps", "20", "--steps", "200")
RESNET = ("--model", "resnet50", "--classes", "1000", "--precision", "bf16", "--memory-format", "channels_last",
          "--warmup-steps", "5", "--steps", "20")


def logical(count):
    return ("--strategy", "mirrored", "--devices", ",".join(f"gpu:{i}" for i in range(count)), "--logical-gpus", str(count))


def memory_checked(*arguments):
    """Five steps under compute-sanitizer, which CUDA's toolkit has and torch has not."""
    return Step(f"memcheck: {' '.join(arguments[:2])}", bench("--model", "mnist_cnn", "--batch-size", "32", "--warmup-steps", "0", "--steps", "5", *arguments), 90,
                under=("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9"))


def measured(name, *arguments):
    return [Step(f"{name} [{block}]", bench(*arguments), 60, measures=True) for block in range(1, BLOCKS + 1)]


STEPS = (
    Step("devices", ("brigade", "devices", "--json"), 60),
    Step("device tests without the card", ("device_tests", "--gtest_brief=1"), 120, hides_card=True),
    Step("comm tests without the card", ("comm_tests", "--gtest_brief=1"), 180, hides_card=True),
    Step("tests on the card", ("gpu_tests", "--gtest_brief=1"), 300),
    memory_checked(*GPU),
    memory_checked(*logical(2)),
    memory_checked("--strategy", "central_storage", "--devices", "gpu:0,gpu:1", "--logical-gpus", "2", "--controller", "gpu:0"),
    *measured("MNIST CNN, batch 128, reproducible", *MNIST, *GPU),
    *measured("MNIST CNN, batch 128, fast", *MNIST, *GPU, "--numerics", "fast"),
    *measured("MNIST CNN, batch 128, fast, compiled", *MNIST, *GPU, "--numerics", "fast", "--compile"),
    *measured("MNIST CNN, 2 logical GPUs x 128", *MNIST, *logical(2)),
    *measured("MNIST CNN, 2 logical GPUs x 128, fast, compiled", *MNIST, *logical(2), "--numerics", "fast", "--compile"),
    *measured("ResNet-50, bf16, batch 256, fast", *RESNET, *GPU, "--batch-size", "256", "--numerics", "fast"),
    *measured("ResNet-50, bf16, 2 logical GPUs x 128, fast", *RESNET, *logical(2), "--batch-size", "128", "--numerics",
              "fast"),
)


# --- here ---------------------------------------------------------------------------------------------------------------

def libraries_of(program):
    """The libraries that `program` loads and the lent machine lacks."""
    listed = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    found = {}
    for name, path in re.findall(r"^\s*(\S+) => (\S+)", listed, re.MULTILINE):
        if path == "not":
            raise SessionFailed(f"{program} needs {name}, which is not found here")
        if not OF_THE_MACHINE.match(name):
            found[name] = pathlib.Path(path)
    return found


def pack(build, folder, programs=PROGRAMS):
    missing = [name for name in programs if not (build / "bin" / name).is_file()]
    if missing:
        raise SessionFailed(f"{build}/bin lacks {', '.join(missing)}: build them with the preset gpu")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    for name in programs:
        subprocess.run(["strip", "-o", str(folder / "bin" / name), str(build / "bin" / name)], check=True)
        for library, path in libraries_of(build / "bin" / name).items():
            if not (folder / "lib" / library).exists():
                shutil.copyfile(path, folder / "lib" / library)
    shutil.copyfile(__file__, folder / "gpu_session.py")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise SessionFailed(f"{folder} has {size / 2**20:.0f} MiB; at most {MOST_BYTES // 2**20} travel")
    return size


# --- there --------------------------------------------------------------------------------------------------------------

def torch_folder():
    found = subprocess.run([sys.executable, "-c", "import torch, os; print(os.path.dirname(torch.__file__))"],
                           capture_output=True, text=True)
    if found.returncode != 0:
        raise SessionFailed("this machine's Python has no torch; give --torch its folder")
    return pathlib.Path(found.stdout.strip())


def environment(folder, torch, step):
    paths = [folder / "lib", torch / "lib", *sorted((torch.parent / "nvidia").glob("*/lib"))]
    changed = {**os.environ, "LD_LIBRARY_PATH": ":".join(str(path) for path in paths)}
    if step.hides_card:
        changed["CUDA_VISIBLE_DEVICES"] = ""
    return changed


def run_step(step, folder, torch, seconds):
    """What came of it, as data. It never throws for a step that fails."""
    start = time.monotonic()
    command = [*step.under, str(folder / "bin" / step.command[0]), *step.command[1:]]
    result = {"command": " ".join((*step.under, *step.command))}
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=environment(folder, torch, step), start_new_session=True)
    except OSError as error:
        return {**result, "passed": False, "why": f"does not start: {error.strerror}"}
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return {**result, "passed": False, "why": f"no end within {seconds:.0f} s", "output": output[-2000:]}
    result |= {"passed": process.returncode == 0, "seconds": round(time.monotonic() - start, 1)}
    if process.returncode != 0:
        return {**result, "why": f"exit {process.returncode}", "output": output[-2000:]}
    objects = [line for line in output.splitlines() if line.startswith("{")]
    if objects:
        result["report"] = json.loads(objects[-1])
    elif step.measures:
        return {**result, "passed": False, "why": "it printed no results"}
    return result


def run(folder, out, torch, seconds, steps=STEPS):
    """Runs the steps that `out` has no result of. Returns whether all have one now."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    until = time.monotonic() + seconds
    for step in steps:
        if step.name in results:
            continue
        left = until - time.monotonic()
        if left < step.seconds:
            print(f"stopping before '{step.name}', which may take {step.seconds} s: call again", flush=True)
            return False
        results[step.name] = run_step(step, folder, torch, step.seconds)
        file.write_text(json.dumps(results, indent=1))
        print(f"{step.name}: {'passed' if results[step.name]['passed'] else results[step.name]['why']}", flush=True)
    return True


# --- the table ----------------------------------------------------------------------------------------------------------

def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def table(results):
    """Lines of Markdown: medians and ranges, and what did not pass."""
    blocks = {}
    for name, result in results.items():
        match = re.fullmatch(r"(.*) \[\d+\]", name)
        if match:
            speeds = blocks.setdefault(match[1], [])
            if result["passed"]:
                speeds.append(result["report"]["images_per_second"])
    lines = ["| what | images/s, median | range | blocks |", "|---|---|---|---|"]
    for name, speeds in blocks.items():
        if speeds:
            lines.append(f"| {name} | {median(speeds):.0f} | {min(speeds):.0f}-{max(speeds):.0f} | {len(speeds)} |")
        else:
            lines.append(f"| {name} | not measured | - | 0 |")
    lines.append("")
    for name, result in results.items():
        if not result["passed"]:
            lines.append(f"- failed: {name}: {result['why']}")
        elif "[" not in name:
            lines.append(f"- passed: {name}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = parser.add_subparsers(dest="job", required=True)
    packing = jobs.add_parser("pack")
    packing.add_argument("build", type=pathlib.Path)
    packing.add_argument("folder", type=pathlib.Path)
    running = jobs.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("out", type=pathlib.Path)
    running.add_argument("--torch", type=pathlib.Path)
    running.add_argument("--seconds", type=float, default=570)
    printing = jobs.add_parser("table")
    printing.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()
    try:
        if options.job == "pack":
            print(f"{pack(options.build, options.folder) / 2**20:.1f} MiB in {options.folder}")
        elif options.job == "run":
            run(options.folder.resolve(), options.out, options.torch or torch_folder(), options.seconds)
        else:
            print("\n".join(table(json.loads(options.results.read_text()))))
    except SessionFailed as error:
        raise SystemExit(f"gpu_session: {error}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A session on a machine with a GPU that was lent for minutes and has no registries: only torch, its CUDA libraries and Python.

usage: gpu_session.py pack BUILD FOLDER     here: what must travel, from a build of the preset gpu, in FOLDER and as
                                            FOLDER.tar.gz: at most 64 MiB together with the files of this checkout
       gpu_session.py plan [--call N] [--budget N]
                                            which steps the calls have, if each takes as long as it may
       gpu_session.py run FOLDER OUT [--earlier RESULTS] [--torch DIR] [--call N] [--budget N]
                                            there: the steps in their order (gpu_steps.py), each with its own time limit, until
                                            N seconds (--call, default 570, for calls of 10 minutes) are over. Goes on where
                                            OUT/results.json, or the RESULTS of earlier calls, stop. Writes OUT/results.json
                                            after each step. A step that does not fit into what is left of --budget (seconds
                                            of all calls together, default 1800) is left out for shorter ones after it
       gpu_session.py table RESULTS         the measurements as tables for docs/benchmarks.md, and which checks passed
       gpu_session.py images FOLDER         random images in MNIST's format, and
       gpu_session.py photographs FOLDER    large ones in JPEG files, which steps read
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time

import gpu_steps

MOST_BYTES = 64 * 2**20
CALL_SECONDS = 570
BUDGET_SECONDS = 1800
PROGRAMS = ("brigade", "brigade-core", "device_tests", "comm_tests", "gpu_tests", "bare_libtorch")
# What runs there beside the programs: this, and what it and its steps need.
SCRIPTS = ("tools/gpu_session.py", "tools/gpu_steps.py", "benchmarks/peers/pytorch_gpu.py", "benchmarks/peers/measure.py")
SOURCES = pathlib.Path(__file__).resolve().parent.parent
# What every Linux with the lent machine's torch has, or must have in its own version: not packed.
OF_THE_MACHINE = re.compile(r"(ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libutil\.|libresolv\.|libgcc_s\.|linux-vdso|"
                            r"libtorch|libc10|libgomp|libcu|libnv|libnccl|libcaffe2)")

OPENED_BY_NAME = ("libssl.so",)  # by Gloo, in libtorch, for TLS: `ldd` does not show them


class SessionFailed(Exception):
    """The text says why, in one line."""


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


def library_of_the_system(name):
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    found = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)", listed, re.MULTILINE)
    if not found:
        raise SessionFailed(f"{name} is not found here; Debian's development packages have it")
    return pathlib.Path(found[1])


def bytes_of_checkout():
    """Its files in git, which travel as well."""
    listed = subprocess.run(["git", "-C", str(SOURCES), "ls-files", "-z"], capture_output=True, text=True).stdout
    paths = [SOURCES / name for name in listed.split("\0") if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def fill(folder, build, programs):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    for name in programs:
        subprocess.run(["strip", "-o", str(folder / "bin" / name), str(build / "bin" / name)], check=True)
        for library, path in libraries_of(build / "bin" / name).items():
            if not (folder / "lib" / library).exists():
                shutil.copyfile(path, folder / "lib" / library)
    for name in OPENED_BY_NAME:
        shutil.copyfile(library_of_the_system(name), folder / "lib" / name)
    for script in SCRIPTS:
        shutil.copy(SOURCES / script, folder)


def pack(build, folder, programs=PROGRAMS):
    """The size of the archive."""
    missing = [name for name in programs if not (build / "bin" / name).is_file()]
    if missing:
        raise SessionFailed(f"{build}/bin lacks {', '.join(missing)}: build them with the preset gpu")
    fill(folder, build, programs)
    archive = folder.parent / f"{folder.name}.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, arcname=folder.name)
    size, checkout = archive.stat().st_size, bytes_of_checkout()
    if size + checkout > MOST_BYTES:
        raise SessionFailed(f"{archive} has {size / 2**20:.0f} MiB and the checkout {checkout / 2**20:.0f}; at most "
                            f"{MOST_BYTES // 2**20} travel")
    return size


# --- the schedule -------------------------------------------------------------------------------------------------------

def decide(step, call_left, budget_left):
    """What to do with the next step: 'run' it, 'leave' it out, or end the 'call'."""
    if step.seconds > budget_left:
        return "leave"
    return "run" if step.seconds <= call_left else "call"


def plan(call_seconds, budget, steps=gpu_steps.STEPS):
    """([steps of a call], [steps that are left out]), if each takes as long as it may."""
    calls, left_out = [[]], []
    call_left = call_seconds
    for step in steps:
        if decide(step, call_left, budget) == "leave":
            left_out.append(step)
            continue
        if decide(step, call_left, budget) == "call":
            calls.append([])
            call_left = call_seconds
        calls[-1].append(step)
        call_left -= step.seconds
        budget -= step.seconds
    return calls, left_out


def in_short(steps):
    """The names of steps; blocks of one measurement together."""
    blocks = {}
    for step in steps:
        name = re.sub(r" \[\d+\]$", "", step.name)
        blocks[name] = blocks.get(name, 0) + 1
    return [f"{name} x {count}" if count > 1 else name for name, count in blocks.items()]


def print_plan(call_seconds, budget):
    calls, left_out = plan(call_seconds, budget)
    for number, steps in enumerate(calls, 1):
        print(f"call {number}, at most {sum(step.seconds for step in steps)} s:")
        print("".join(f"  {line}\n" for line in in_short(steps)), end="")
    if left_out:
        print("left out, unless others take less than they may:")
        print("".join(f"  {line}\n" for line in in_short(left_out)), end="")


# --- there --------------------------------------------------------------------------------------------------------------

def torch_folder():
    found = subprocess.run([sys.executable, "-c", "import torch, os; print(os.path.dirname(torch.__file__))"],
                           capture_output=True, text=True)
    if found.returncode != 0:
        raise SessionFailed("this machine's Python has no torch; give --torch its folder")
    return pathlib.Path(found.stdout.strip())


def environment(folder, torch, step):
    changed = dict(os.environ)
    if step.command[0] != "python":  # which has its own libraries
        paths = [folder / "lib", torch / "lib", *sorted((torch.parent / "nvidia").glob("*/lib"))]
        changed["LD_LIBRARY_PATH"] = ":".join(str(path) for path in paths)
    if step.hides_card:
        changed["CUDA_VISIBLE_DEVICES"] = ""
    return changed


def command_of(step, folder):
    words = [word.replace("{scratch}", str(folder / "scratch")) for word in step.command]
    if words[0] == "python":
        return [*step.under, sys.executable, str(folder / words[1]), *words[2:]]
    return [*step.under, str(folder / "bin" / words[0]), *words[1:]]


def last_object(output):
    """The JSON object in the last line that is one; None if there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    return None


def cpu_seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_step(step, folder, torch):
    """What came of it, as data. It never throws for a step that fails."""
    start, cpu_start = time.monotonic(), cpu_seconds_of_children()
    result = {"command": " ".join((*step.under, *step.command)), "passed": False, "seconds": 0}
    try:
        process = subprocess.Popen(command_of(step, folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=environment(folder, torch, step), start_new_session=True)
    except OSError as error:
        return {**result, "why": f"does not start: {error.strerror}"}
    try:
        output, _ = process.communicate(timeout=step.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return {**result, "seconds": step.seconds, "why": f"no end within {step.seconds:.0f} s", "output": output[-2000:]}
    result["seconds"] = round(time.monotonic() - start, 1)
    result["cpu_seconds"] = round(cpu_seconds_of_children() - cpu_start, 1)
    if process.returncode != 0:
        return {**result, "why": f"exit {process.returncode}", "output": output[-2000:]}
    report = last_object(output)
    if step.measures and not isinstance((report or {}).get(step.measures), (int, float)):
        return {**result, "why": f"it printed no {step.measures}", "output": output[-2000:]}
    skipped = re.findall(r"^\[  SKIPPED \] (\S+)$", output, re.MULTILINE)
    return {**result, "passed": True, **({"report": report} if report else {}),
            **({"value": report[step.measures]} if step.measures else {}),
            **({"skipped": sorted(set(skipped))} if skipped else {})}


def known_results(file, earlier):
    results = {}
    for known in (earlier, file):
        if known and known.exists():
            results |= json.loads(known.read_text())
    return results


def run(folder, out, torch, call_seconds=CALL_SECONDS, budget=BUDGET_SECONDS, earlier=None, steps=gpu_steps.STEPS):
    """Runs the steps that have no result yet. Returns whether another call has something to do."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "results.json"
    results = known_results(file, earlier)
    file.write_text(json.dumps(results, indent=1))
    start = time.monotonic()
    budget -= sum(result["seconds"] for result in results.values())
    for step in steps:
        if step.name not in results:
            used = time.monotonic() - start
            decision = decide(step, call_seconds - used, budget - used)
            if decision == "leave":
                print(f"{step.name}: left out, for it may take {step.seconds} s", flush=True)
                continue
            if decision == "call":
                print(f"stopping before '{step.name}', which may take {step.seconds} s: call again", flush=True)
                return True
            results[step.name] = run_step(step, folder, torch)
            file.write_text(json.dumps(results, indent=1))
            print(f"{step.name}: {'passed' if results[step.name]['passed'] else results[step.name]['why']}", flush=True)
        if step.decides and not results[step.name].get("value"):
            print(f"nothing else counts without '{step.name}'", flush=True)
            return False
    return False


def write_images(folder, count=60000, rows=28):
    """Random images and labels in MNIST's format."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, number in (("train", count), ("t10k", count // 60)):
        images = struct.pack(">4i", 2051, number, rows, rows) + os.urandom(number * rows * rows)
        labels = struct.pack(">2i", 2049, number) + bytes(label % 10 for label in os.urandom(number))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)


def write_photographs(folder, count=2048, classes=8):
    """JPEG files of 500x375 with smooth random contents, some 50 KB each, as folders of classes; a few for validation."""
    import torch
    import torchvision
    generator = torch.Generator().manual_seed(1)
    for number in range(count + count // 16):
        split = "train" if number < count else "val"
        path = folder / split / f"class{number % classes}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = torch.rand(1, 3, 24, 32, generator=generator)
        pixels = torch.nn.functional.interpolate(coarse, (375, 500), mode="bicubic")[0]
        pixels += 0.05 * torch.rand(3, 375, 500, generator=generator)
        torchvision.io.write_jpeg((255 * pixels.clamp(0, 1)).byte(), str(path), quality=90)


# --- the tables ---------------------------------------------------------------------------------------------------------

def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def blocks_of(results):
    """{measurement: {block: value}}; no values of a measurement that always failed."""
    blocks = {}
    for name, result in results.items():
        match = re.fullmatch(r"(.*) \[(\d+)\]", name)
        if match:
            values = blocks.setdefault(match[1], {})
            if result["passed"]:
                values[int(match[2])] = result["value"]
    return blocks


def cores_of(name, results):
    """How many cores a measurement kept busy, its start included; empty if that is not known."""
    used = [result["cpu_seconds"] / result["seconds"] for key, result in results.items()
            if key.startswith(f"{name} [") and result.get("cpu_seconds") and result["seconds"]]
    return f"{median(used):.1f}" if used else ""


def written(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def verdict(bar, middle):
    return "met" if (middle >= bar.limit if bar.at_least else middle <= bar.limit) else "missed"


def bar_line(bar, blocks):
    of, over = blocks.get(bar.of, {}), blocks.get(bar.over, {})
    found = list(of.values()) if not bar.over else [of[block] / over[block] for block in sorted(of.keys() & over.keys())]
    limit = f"{'at least' if bar.at_least else 'at most'} {bar.limit}"
    if not found:
        return f"| {bar.name} | {limit} | not measured | - | 0 | open |"
    enough = verdict(bar, median(found)) if len(found) >= gpu_steps.BLOCKS else "open: too few blocks"
    return f"| {bar.name} | {limit} | {median(found):.3g} | {min(found):.3g}-{max(found):.3g} | {len(found)} | {enough} |"


def machine_of(results):
    """The card, the driver and torch, as `brigade devices` reported them."""
    report = results.get("devices", {}).get("report")
    return f"On: {json.dumps(report)}" if report else "On: not known, `brigade devices` did not run"


def table(results, steps=gpu_steps.STEPS, bars=gpu_steps.BARS):
    """Lines of Markdown: where it ran, medians and ranges, bars, and what did not pass or run."""
    blocks = blocks_of(results)
    lines = [machine_of(results), "", "| what | median | range | blocks | cores used |", "|---|---|---|---|---|"]
    for name, values in blocks.items():
        if values:
            found = list(values.values())
            lines.append(f"| {name} | {written(median(found))} | {written(min(found))}-{written(max(found))} | {len(found)} | "
                         f"{cores_of(name, results)} |")
        else:
            lines.append(f"| {name} | not measured | - | 0 | |")
    lines += ["", "| bar | limit | median | range | blocks | found |", "|---|---|---|---|---|---|"]
    lines += [bar_line(bar, blocks) for bar in bars]
    lines.append("")
    for name, result in results.items():
        if not result["passed"]:
            lines.append(f"- failed: {name}: {result['why']}")
        elif not re.search(r" \[\d+\]$", name):
            skipped = result.get("skipped", [])
            lines.append(f"- passed: {name}" + (f" ({len(skipped)} skipped themselves: {', '.join(skipped)})" if skipped else ""))
    lines += [f"- did not run: {name}" for name in in_short([step for step in steps if step.name not in results])]
    return lines


def add_limits(parser):
    parser.add_argument("--call", type=float, default=CALL_SECONDS)
    parser.add_argument("--budget", type=float, default=BUDGET_SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = parser.add_subparsers(dest="job", required=True)
    packing = jobs.add_parser("pack")
    packing.add_argument("build", type=pathlib.Path)
    packing.add_argument("folder", type=pathlib.Path)
    add_limits(jobs.add_parser("plan"))
    running = jobs.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("out", type=pathlib.Path)
    running.add_argument("--earlier", type=pathlib.Path)
    running.add_argument("--torch", type=pathlib.Path)
    add_limits(running)
    printing = jobs.add_parser("table")
    printing.add_argument("results", type=pathlib.Path)
    for name in ("images", "photographs"):
        jobs.add_parser(name).add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    try:
        if options.job == "pack":
            print(f"{pack(options.build, options.folder) / 2**20:.1f} MiB in {options.folder}.tar.gz")
        elif options.job == "plan":
            print_plan(options.call, options.budget)
        elif options.job == "run":
            run(options.folder.resolve(), options.out, options.torch or torch_folder(), options.call, options.budget,
                options.earlier)
        elif options.job == "images":
            write_images(options.folder)
        elif options.job == "photographs":
            write_photographs(options.folder)
        else:
            print("\n".join(table(json.loads(options.results.read_text()))))
    except SessionFailed as error:
        raise SystemExit(f"gpu_session: {error}")


if __name__ == "__main__":
    main()

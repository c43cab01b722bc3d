#!/usr/bin/env python3
"""Gives the parsers broken input under libFuzzer, AddressSanitizer and UBSan, and reports findings.

    ./dev fuzz                          every target for ten minutes (as many in parallel as there are cores)
    ./dev fuzz --seconds 30 csv jpeg    two targets, half a minute each
    ./dev fuzz --keep                   adds inputs that reach new code to tests/fuzz/corpus

Ends with 1 if an input was found that breaks a parser; the input is then in build/fuzz/findings, and

    build/fuzz/bin/fuzz_csv build/fuzz/findings/csv/crash-...      shows it again.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests/fuzz/corpus"
OWN_LIMIT = 60  # seconds beyond the time asked for, after which a target counts as hanging


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/fuzz", help="build folder of the preset fuzz")
    parser.add_argument("--seconds", type=int, default=600, help="for each target; default 600")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parallel targets")
    parser.add_argument("--keep", action="store_true", help="add what reaches new code to tests/fuzz/corpus")
    return parser.parse_args()


def chosen_targets(options):
    built = sorted(path.name.removeprefix("fuzz_") for path in (options.build / "bin").glob("fuzz_*"))
    unknown = sorted(set(options.targets) - set(built))
    if unknown:
        sys.exit(f"fuzz: no target {', '.join(unknown)}; there are: {', '.join(built)}")
    return options.targets or built


def command(options, target, *flags):
    return [str(options.build / f"bin/fuzz_{target}"), *flags]


def fuzz(options, target):
    """Runs one target; returns the last statistics that it printed, and its findings."""
    new, findings = options.build / f"corpus/{target}", options.build / f"findings/{target}"
    for folder in (new, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for old in findings.iterdir():
        old.unlink()
    seeds = CORPUS / target
    flags = [f"-max_total_time={options.seconds}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=65536", "-use_value_profile=1",
             "-print_final_stats=1", f"-artifact_prefix={findings}/", str(new)]
    try:
        run = subprocess.run(command(options, target, *flags, *([str(seeds)] if seeds.is_dir() else [])), text=True,
                             errors="replace", capture_output=True, timeout=options.seconds + OWN_LIMIT)
        log, failed = run.stderr, run.returncode != 0
    except subprocess.TimeoutExpired as late:
        log, failed = (late.stderr or b"").decode(errors="replace"), True
    (options.build / f"{target}.log").write_text(log)
    executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log)
    coverage = re.findall(r"cov: (\d+)", log)
    return {"executions": int(executions[-1]) if executions else 0, "branches": int(coverage[-1]) if coverage else 0,
            "failed": failed, "findings": sorted(findings.iterdir())}


def keep(options, target):
    """Adds those new inputs to the corpus of the project that reach what its own do not."""
    seeds, new = CORPUS / target, options.build / f"corpus/{target}"
    seeds.mkdir(parents=True, exist_ok=True)
    before = len(list(seeds.iterdir()))
    # Without counters an input is kept only for a new branch, and not for taking one more often.
    subprocess.run(command(options, target, "-merge=1", "-use_counters=0", "-max_len=4096", str(seeds), str(new)), capture_output=True,
                   timeout=600)
    return len(list(seeds.iterdir())) - before


def main():
    options = arguments()
    targets = chosen_targets(options)
    print(f"fuzz: {len(targets)} targets, {options.seconds} s each, {options.jobs} in parallel", file=sys.stderr)
    found = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for target, result in zip(targets, pool.map(lambda each: fuzz(options, each), targets)):
            state = "FAILED" if result["failed"] else "ok"
            added = f", {keep(options, target)} inputs kept" if options.keep and not result["failed"] else ""
            print(f"{target:<14} {state:<6} {result['executions']:>10} executions, {result['branches']:>6} branches{added}")
            for finding in result["findings"]:
                print(f"    {finding}")
            if result["failed"]:
                found += 1
                print(f"    what it said: {options.build / (target + '.log')}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

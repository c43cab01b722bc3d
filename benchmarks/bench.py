#!/usr/bin/env python3
"""Runs our programs and the peers' in alternation, prints one table, and writes the results as JSON.

Installs the peers into a separate virtual environment on the first run. docs/benchmarks.md says how to read it.
Exit status: 0 the table was printed (whatever it says), 1 nothing could be measured, 2 wrong usage.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import signal
import sys
import tempfile

from harness import accuracy, alternating, judge, table
from harness.estimate import estimate
from harness.rows import (ACCURACY_LOSSES, ALTERNATIONS, BARS, DISK, HEADINGS, MEMORY, NOWHERE, PAIRS, PEERS, ROWS,
                          STEP_FRACTIONS, STEPS_PER_BLOCK)
from harness.running import RunFailed, run, run_for_json
from harness.alternating import BlockProgram
from harness.venv import Venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMORY_FOLDER = pathlib.Path("/dev/shm")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about an hour instead of about four, and rougher")
    parser.add_argument("--rows", help="only these, by id and separated by commas ('tutorial', 'mlp64' and so on for a part "
                        "of the table, 'pairs' for the pairs, 'turns' for what is measured alternating with a peer, 'shares' for "
                        "parts of a step, 'accuracy' for trainings, 'trade' for loading during training); --list names them")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--rounds", type=int, help="rounds over all rows (default: 5, quick: 2)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench" / "results.json")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / ".deps" / "bench-venv")
    parser.add_argument("--no-install", action="store_true", help="leave out peers that are not installed")
    options = parser.parse_args()
    groups = ["pairs", "turns", "shares", "accuracy", "trade"]
    known = [row.id for row in ROWS] + [*HEADINGS, *groups, *PAIRS, *ALTERNATIONS, *STEP_FRACTIONS, *ACCURACY_LOSSES]
    options.rows = options.rows.split(",") if options.rows else [row.id for row in ROWS] + groups
    unknown = [id for id in options.rows if id not in known]
    if unknown:
        parser.error(f"no row '{unknown[0]}'; there are {', '.join(known)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; expected 1 or more")
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = 2.0 if options.quick else 6.0
    options.warm_up_seconds = 1.0 if options.quick else 2.0
    return options


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def describe_machine():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return {"processor": fields.get("model name", platform.machine()), "vendor": fields.get("vendor_id", ""),
            "cores": len(os.sched_getaffinity(0)), "system": f"{platform.system()} {platform.release()}",
            "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
            "avx512": "avx512f" in fields.get("flags", ""), "load_before": os.getloadavg()[0]}


class Bench:
    """One run of the whole benchmark: rows that fail once are left out from then on, with the reason kept."""

    def __init__(self, options):
        self.options = options
        self.venv = Venv(options.venv)
        self.selected = [row for row in ROWS if row.id in options.rows or row.model in options.rows]
        self.rows = list(self.selected)
        self.skipped = {}
        self.chosen = {}
        self.runs = []
        self.pairs = {}
        self.trade = []

    def skip(self, row, why):
        say(f"{row.id}: skipped: {why}")
        self.skipped[row.id] = {"label": row.label.strip(), "model": row.model, "why": str(why)}
        self.rows.remove(row)

    def prepare(self):
        for row in list(self.rows):
            try:
                if row.module:
                    self.venv.provide(row.module, not self.options.no_install, say)
                elif not (binary := self.binary("brigade" if row.job else row.command[0])).exists():
                    raise RunFailed(f"{binary} is not built")
                if row.preload and not self.preload_library().exists():
                    raise RunFailed(f"{self.preload_library()} is not built")
            except RunFailed as error:
                self.skip(row, error)

    def binary(self, name):
        return self.options.build_dir / "bin" / name

    def preload_library(self):
        for folder in ("lib", "bin", "brigade/tuning"):
            library = self.options.build_dir / folder / "libbrigade_tuning.so"
            if library.exists():
                return library
        return self.options.build_dir / "lib" / "libbrigade_tuning.so"

    def program(self, row):
        """The command line of a row, without what all programs take."""
        if row.module:
            return [self.venv.python, *row.command]
        if row.job:
            return [sys.executable, *row.command, "--brigade", self.binary("brigade")]
        return [self.binary(row.command[0]), *row.command[1:]]

    def measure(self, row, variant, seconds, warm_up_seconds):
        command = self.program(row)
        if row.processes > 1:
            command = [sys.executable, PEERS / "ranks.py", "--count", row.processes, "--pin", *command]
        if row.model.startswith("mlp"):  # the small ones need less time for as many blocks
            seconds, warm_up_seconds = seconds / 2, warm_up_seconds / 2
        command += [*variant, "--seconds", seconds, "--warm-up-seconds", warm_up_seconds, "--steps-per-block",
                    STEPS_PER_BLOCK[row.model]]
        environment = {"LD_PRELOAD": str(self.preload_library())} if row.preload else None
        limit = row.start_seconds + 5 * (seconds + warm_up_seconds)
        if row.job in (None, NOWHERE):
            return run_for_json(command, limit, environment)[-1]
        with self.scratch(row.job) as folder:
            return run_for_json([*command, "--directory", folder], limit, environment)[-1]

    def settle(self):
        """Keeps each row's fastest settings."""
        for row in list(self.rows):
            self.chosen[row.id] = row.variants[0]
            if self.options.quick or len(row.variants) == 1:
                continue
            rates = []
            for variant in row.variants:
                try:
                    rates.append(self.measure(row, variant, 3, 1)["best_images_per_second"])
                except RunFailed as error:
                    say(f"{row.id} {' '.join(variant)}: {error}")
                    rates.append(0.0)
            self.chosen[row.id] = row.variants[rates.index(max(rates))]
            tried = ", ".join(f"{table.rate_text(rate)} with {' '.join(v)}" for rate, v in zip(rates, row.variants))
            say(f"{row.id}: {tried}")

    def run_rounds(self):
        for number in range(1, self.options.rounds + 1):
            for row in list(self.rows):
                try:
                    run = self.measure(row, self.chosen[row.id], self.options.seconds, self.options.warm_up_seconds)
                except RunFailed as error:
                    self.skip(row, error)
                    continue
                self.runs.append({**run, "row": row.id, "round": number})
                say(f"round {number} of {self.options.rounds}: {row.id} {table.rate_text(run['images_per_second'])} images/s")

    def run_pairs(self):
        for name, pair in PAIRS.items():
            if "pairs" not in self.options.rows and name not in self.options.rows:
                continue
            pairs, steps = pair.quick if self.options.quick else pair.full
            command = [self.binary(pair.command[0]), *pair.command[1:], "--pairs", pairs, "--steps", steps]
            self.compare(name, pair.text, lambda: self.run_pair(pair, command))

    def run_pair(self, pair, command):
        with contextlib.ExitStack() as stack:
            where = []
            for flag, folder in (("--directory", pair.writes), ("--base-directory", pair.base_writes)):
                if folder:
                    where += [flag, stack.enter_context(self.scratch(folder))]
            return run_for_json([*command, *where], 300)[-1]

    def run_turns(self):
        for name, entry in ALTERNATIONS.items():
            if "turns" in self.options.rows or name in self.options.rows:
                self.compare(name, entry.text, lambda: self.take_turns(entry))

    def take_turns(self, entry):
        for module in entry.modules:
            self.venv.provide(module, not self.options.no_install, say)
        with self.scratch() as folder:
            where = ["--directory", folder]
            if entry.prepare:
                run([self.binary(entry.prepare[0]), *entry.prepare[1:], *where], 300)
            with (BlockProgram([self.binary(entry.ours[0]), *entry.ours[1:], *where], 60) as ours,
                  BlockProgram([self.venv.python, *entry.theirs, *where], 60) as theirs):
                return alternating.compare(ours, theirs, entry.word, entry.quick if self.options.quick else entry.full)

    def run_step_fractions(self):
        for name, fraction in STEP_FRACTIONS.items():
            if "shares" in self.options.rows or name in self.options.rows:
                self.compare(name, fraction.text, lambda: self.step_fraction(fraction))

    def step_fraction(self, fraction):
        fractions = []
        for _ in range(3 if self.options.quick else 6):
            found = run_for_json([self.binary("brigade"), "train", *fraction.flags, "--json"], 300)[-1]
            replicas = [replica[fraction.phase] for replica in found["step_shares"]]
            fractions.append(sum(replicas) / len(replicas))
        return estimate(fractions)

    def run_accuracy_losses(self):
        for name, entry in ACCURACY_LOSSES.items():
            if "accuracy" in self.options.rows or name in self.options.rows:
                self.compare(name, entry.text, lambda: self.loss_of_accuracy(entry))

    def loss_of_accuracy(self, entry):
        epochs, seeds = entry.quick if self.options.quick else entry.full
        if entry.peer:
            self.venv.provide("torchvision", not self.options.no_install, say)
            self.venv.provide("PIL", not self.options.no_install, say)
        with self.scratch() as folder:
            if entry.prepare:
                run([sys.executable, entry.prepare[0], folder, *entry.prepare[1:]], 300)
            course = [*(["--data-dir", folder] if entry.prepare else []), "--epochs", epochs]
            found = accuracy.loss_of_accuracy(lambda seed: self.our_training(entry, entry.ours, entry.launch, [*course, "--seed", seed]),
                                              lambda seed: self.base_training(entry, [*course, "--seed", seed]), seeds)
        return {**found, "base_name": entry.base_name}

    def our_training(self, entry, flags, launch, course):
        brigade = self.binary("brigade")
        train = [brigade, "train", *entry.training, *flags, *course, "--log-every", 0, "--json"]
        # Only the chief, whose process is number 0, reports the accuracy.
        return [brigade, "launch", *launch, "--prefix", "none", "--show-ranks", 0, "--", *train] if launch else train

    def base_training(self, entry, course):
        return [self.venv.python, entry.peer, *course] if entry.peer else self.our_training(entry, entry.base, None, course)

    def run_trade(self):
        if "trade" not in self.options.rows:
            return
        try:
            with self.scratch() as folder:
                where = ["--directory", folder]
                run([self.binary("input_speed"), "--make", "jpeg", *where], 300)
                rounds = 6 if self.options.quick else 12
                for decoding, flags in (("scaled", []), ("exact", ["--exact"])):
                    found = run_for_json([self.binary("input_trade"), *where, "--rounds", rounds, *flags], 600)
                    self.trade += [{**entry, "decoding": decoding} for entry in found]
        except RunFailed as error:
            say(f"trade: skipped: {error}")
            self.skipped["trade"] = {"label": "loading during training", "model": "pairs", "why": str(error)}

    def compare(self, name, text, measure):
        try:
            found = measure()
        except RunFailed as error:
            say(f"{name}: skipped: {error}")
            self.skipped[name] = {"label": text, "model": "pairs", "why": str(error)}
            return
        self.pairs[name] = {**found, "text": text}
        say(f"{name}: {found['median']:.4f} [{found['low']:.4f}, {found['high']:.4f}]")

    def scratch(self, where=DISK):
        """A folder for programs that write."""
        if where == MEMORY and not MEMORY_FOLDER.is_dir():
            raise RunFailed(f"there is no {MEMORY_FOLDER}")
        parent = MEMORY_FOLDER if where == MEMORY else self.options.out.parent
        parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="scratch-", dir=parent)

    def results(self, machine):
        why = json.loads((ROOT / "benchmarks" / "why.json").read_text())
        return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "machine": machine, "mode": "quick" if self.options.quick else "full",
                "rounds": self.options.rounds, "seconds": self.options.seconds, "versions": self.venv.versions,
                "rows": judge.summarize(self.selected, self.runs),
                "settings": {id: " ".join(variant) for id, variant in self.chosen.items()},
                "skipped": self.skipped, "pairs": self.pairs, "trade": self.trade,
                "bars": judge.judge(BARS, self.runs, self.pairs, why), "runs": self.runs}


def main():
    options = parse_arguments()
    if options.list:
        print("\n".join(f"{row.id:<22} {row.label.strip()} ({row.model})" for row in ROWS))
        print("\n".join(f"{name:<22} {pair.text} (in pairs)" for name, pair in PAIRS.items()))
        print("\n".join(f"{name:<22} {entry.text} (alternating)" for name, entry in ALTERNATIONS.items()))
        print("\n".join(f"{name:<22} {fraction.text} (fraction of a step)" for name, fraction in STEP_FRACTIONS.items()))
        print("\n".join(f"{name:<22} {entry.text} (points of accuracy)" for name, entry in ACCURACY_LOSSES.items()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine = describe_machine()
    bench = Bench(options)
    bench.prepare()
    bench.settle()
    bench.run_rounds()
    bench.run_pairs()
    bench.run_turns()
    bench.run_step_fractions()
    bench.run_accuracy_losses()
    bench.run_trade()
    results = bench.results(machine)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(table.render(results))
    print(f"\nwritten: {options.out}")
    return 0 if bench.runs or bench.pairs or bench.trade else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

#!/usr/bin/env python3
"""Hurts a launched training of several processes again and again, at random moments, and compares what it ends with.

Each training is started by `brigade launch --max-restarts`. Faults (SIGKILL or SIGSTOP, of the chief or of another worker) are
aimed at a phase: start-up, step, checkpoint, shutdown; they are counted where they fell. Every training must end with the
weights of the one that nobody hurt, bit for bit. Prints each fault, and a table. Exit codes: 0 all well, 1 not."""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PHASES = ("start-up", "step", "checkpoint", "shutdown")
KINDS = (signal.SIGKILL, signal.SIGSTOP)
STEPS = 150
TRAINING = ("train", "--strategy", "multi_worker_mirrored", "--model", "mlp", "--hidden", "256,256", "--dataset", "synthetic",
            "--train-examples", "2048", "--batch-size", "64", "--steps", str(STEPS), "--save-every", "15steps", "--eval", "none",
            "--log-every", "0", "--allow-oversubscription", "--json",
            "--start-timeout", "12s")  # a process that is stopped before it has come is missed after this time
LONGEST_START = 1.0  # seconds, that a fault is aimed into
DEADLINE = 240.0  # seconds without any progress are a hang


class Failed(Exception):
    """The training did not do what it must."""


def own_environment():
    strangers = ("TF_CONFIG", "BRIGADE_RENDEZVOUS", "BRIGADE_GENERATION", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(strangers)}


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def variables_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def descends_from(pid, ancestor):
    while pid > 1:
        pid = parent_of(pid)
        if pid == ancestor:
            return True
    return False


class Job:
    """`brigade launch` with a training below it; gone, with all of it, when the block ends."""

    def __init__(self, command, model_dir, workers=2, peer_timeout=5.0, training=TRAINING, restarts=1000):
        arguments = ["launch", "--nproc", workers, "--max-restarts", restarts, "--grace", 2, "--peer-timeout", peer_timeout,
                     "--", command, *training, "--peer-timeout", f"{peer_timeout}s", "--model-dir", model_dir]
        self.model_dir = pathlib.Path(model_dir)
        self._process = subprocess.Popen([command, *map(str, arguments)], env=own_environment(), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._changed = threading.Condition()
        self._lines = []  # (time, text)
        self._readers = [threading.Thread(target=self._read, args=(each,), daemon=True)
                         for each in (self._process.stdout, self._process.stderr)]
        for reader in self._readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()  # the launcher's shims take all below them with it
        self._process.wait()
        for reader in self._readers:
            reader.join(10)
        self._process.stdout.close()
        self._process.stderr.close()

    def _read(self, stream):
        for line in stream:
            with self._changed:
                self._lines.append((time.monotonic(), line.rstrip("\n")))
                self._changed.notify_all()

    def is_running(self):
        return self._process.poll() is None

    def tail(self, count=12):
        with self._changed:
            return "\n".join(f"    {line}" for _, line in self._lines[-count:])

    def matches(self, pattern, since):
        """The lines written after this time in which this is found: when, and the match."""
        with self._changed:
            lines = [each for each in self._lines if each[0] >= since]
        found = ((when, re.search(pattern, line)) for when, line in lines)
        return [each for each in found if each[1]]

    def is_writing(self):
        return any((self.model_dir / "checkpoints").glob(".ckpt-*"))

    def ranks(self):
        """The training's processes: rank -> pid."""
        found = {}
        for each in pathlib.Path("/proc").iterdir():
            if not each.name.isdigit() or name_of(each.name) not in ("brigade", "brigade-core"):
                continue
            variables = variables_of(each.name)
            is_rank = "RANK" in variables and "BRIGADE_RENDEZVOUS" in variables
            if is_rank and descends_from(int(each.name), self._process.pid) and self._is_training(each.name):
                found[int(variables["RANK"])] = int(each.name)
        return found

    @staticmethod
    def _is_training(pid):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return len(words) > 1 and words[1] == b"train"

    def wait_until(self, condition, what, pause=0.002):
        """Returns what the condition gives, or None if the job ended before."""
        end = time.monotonic() + DEADLINE
        while True:
            value = condition()
            if value:
                return value
            if not self.is_running():
                return None
            if time.monotonic() > end:
                raise Failed(f"waited {DEADLINE:.0f} s for {what}; the job hangs:\n{self.tail()}")
            time.sleep(pause)

    def result(self):
        """What the chief wrote, when the job has ended; it must have ended well."""
        try:
            code = self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Failed(f"the job does not end:\n{self.tail()}") from None
        for reader in self._readers:
            reader.join(10)
        if code != 0:
            raise Failed(f"the job ended with {code}:\n{self.tail()}")
        objects = self.matches(r"(\{.*\"weights_sha256\".*\})", 0.0)
        if not objects:
            raise Failed(f"the job printed no result:\n{self.tail()}")
        return json.loads(objects[-1][1].group(1))


class Fault:
    """One of them: what, whom, where it was aimed at, and what came of it."""

    def __init__(self, draw, number, workers):
        self.number = number
        self.kind = draw.choice(KINDS)
        self.rank = draw.randrange(workers)
        self.aim = draw.choice(PHASES)
        self._steps = draw.randint(1, 40)
        self._part = draw.random()
        self.delay = 10 ** draw.uniform(-4, -1.5)
        self.fell_in = None
        self.seconds = None  # until the next step

    @property
    def role(self):
        return "chief" if self.rank == 0 else "worker"

    def strike(self, job, life):
        """Waits for the moment, and hurts. False if the training ended, or went another way, before."""
        if self.aim == "start-up":
            time.sleep(self._part * LONGEST_START)
        elif not job.wait_until(lambda: self._is_reached(job, life) or life.is_over(job), f"the phase {self.aim}"):
            return False
        else:
            time.sleep(self.delay)
        return life.hurt(job, self)

    def _is_reached(self, job, life):
        if self.aim == "checkpoint":
            return job.is_writing() and life.first_step(job) is not None
        step, first = life.last_step(job), life.first_step(job)
        if step is None:
            return False
        return step >= (STEPS if self.aim == "shutdown" else min(first + self._steps, STEPS - 1))


class Life:
    """All processes from one start to the next."""

    def __init__(self, ranks, begun_at):
        self.ranks, self.begun_at = ranks, begun_at

    def steps(self, job):
        """When each of its steps was told; not what those before it wrote, which may come late."""
        begins = job.matches(r"\btraining mlp on ", self.begun_at)
        if not begins:
            return []
        return [(when, int(match.group(1))) for when, match in job.matches(r"\bstep (\d+)/", begins[0][0])]

    def first_step(self, job):
        steps = self.steps(job)
        return steps[0][1] if steps else None

    def last_step(self, job):
        steps = self.steps(job)
        return steps[-1][1] if steps else None

    def is_over(self, job):
        return any(name_of(pid) == "" for pid in self.ranks.values())

    def phase(self, job):
        last = self.last_step(job)
        if last is None:
            return "start-up"
        if last >= STEPS:  # the last checkpoint is part of it
            return "shutdown"
        return "checkpoint" if job.is_writing() else "step"

    def hurt(self, job, fault):
        phase = self.phase(job)
        try:
            os.kill(self.ranks[fault.rank], fault.kind)
        except ProcessLookupError:
            return False
        fault.fell_in = phase
        fault.at = time.monotonic()
        return True


class Soak:
    def __init__(self, options, folder):
        self._options, self._folder = options, folder
        self._draw = random.Random(options.seed)
        self.faults = []
        self._jobs = 0

    def _job(self, name):
        return Job(self._options.command, self._folder / name, self._options.workers, self._options.peer_timeout)

    def unhurt(self):
        with self._job("unhurt") as job:
            return job.result()["weights_sha256"]

    def run(self, wanted):
        while len(self.faults) < self._options.faults:
            self._jobs += 1
            name = f"job-{self._jobs}"
            with self._job(name) as job:
                self._hurt(job)
                result = job.result()
            if result["weights_sha256"] != wanted:
                raise Failed(f"{name} ended with other weights: {result['weights_sha256']}, not {wanted}")
            print(f"  training {self._jobs} ended with the same weights, after {len(self.faults)} faults", flush=True)
            shutil.rmtree(self._folder / name)

    def _hurt(self, job):
        """Faults until there are enough, or the training is through."""
        life = self._next_life(job, {})
        while life and len(self.faults) < self._options.faults:
            fault = Fault(self._draw, len(self.faults) + 1, self._options.workers)
            if fault.strike(job, life):
                self.faults.append(fault)
                life = self._watch(job, fault, life)
                self._tell(fault)
            elif life.is_over(job):  # by itself
                life = self._next_life(job, life.ranks)

    @staticmethod
    def _tell(fault):
        then = "" if fault.seconds is None else f"next step after {fault.seconds:.2f} s"
        print(f"  {fault.number:3} {fault.kind.name} of the {fault.role:6} in {fault.fell_in:10} {then}", flush=True)

    def _next_life_ranks(self, job, before):
        ranks = job.ranks()
        is_new = len(ranks) == self._options.workers and not set(ranks.values()) & set(before.values())
        return ranks if is_new else None

    def _next_life(self, job, before):
        ranks = job.wait_until(lambda: self._next_life_ranks(job, before), "the processes", pause=0.02)
        return ranks and Life(ranks, time.monotonic())

    def _watch(self, job, fault, hurt):
        """Waits until the training goes on after a fault, or ends. Returns the life in which it does."""
        life = self._next_life(job, hurt.ranks)
        while life:
            steps = job.wait_until(lambda: life.steps(job) or life.is_over(job), f"the next step after fault {fault.number}")
            if steps is not True:
                break
            life = self._next_life(job, life.ranks)  # those did not come as far
        if life and steps:
            fault.seconds = steps[0][0] - fault.at
        return life


def table(faults):
    lines = [f"{'fault':16} " + " ".join(f"{phase:>10}" for phase in PHASES) + "   next step: median  worst"]
    for kind in KINDS:
        for role in ("chief", "worker"):
            mine = [each for each in faults if each.kind == kind and each.role == role]
            counts = collections.Counter(each.fell_in for each in mine)
            seconds = [each.seconds for each in mine if each.seconds is not None]
            times = f"{statistics.median(seconds):7.2f} s {max(seconds):5.2f} s" if seconds else "      -       -"
            lines.append(f"{kind.name} {role:7} " + " ".join(f"{counts[phase]:10}" for phase in PHASES) + f"          {times}")
    return "\n".join(lines)


def main(words=None):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="draws the moments again")
    parser.add_argument("--workers", type=int, default=2, help="processes of a training (default 2)")
    parser.add_argument("--peer-timeout", type=float, default=5.0, help="seconds until a silent process is lost (default 5)")
    parser.add_argument("--command", default="build/release/bin/brigade", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.command = str(pathlib.Path(options.command).resolve())
    print(f"seed {options.seed}: {options.faults} faults in trainings of {options.workers} processes", flush=True)
    begin = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="brigade-soak-"))
    soak = Soak(options, folder)
    try:
        soak.run(soak.unhurt())
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Failed as error:
        print(table(soak.faults))
        print(f"soak: {error}\nsoak: seed {options.seed}; what it left is in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    print(table(soak.faults))
    print(f"{len(soak.faults)} faults in {time.monotonic() - begin:.0f} s; all trainings ended with the weights of the one "
          "that nobody hurt")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # so that it takes its job with it
    sys.exit(main())

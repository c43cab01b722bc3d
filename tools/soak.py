#!/usr/bin/env python3
"""Hurts launched trainings of several processes again and again, and compares what they end with.

Each training is started by `brigade launch --max-restarts`. Faults (SIGKILL, SIGSTOP, closed sockets, a full disk, a machine
ten times as slow; of the chief or of another worker) come at random moments, aimed at a phase: start-up, joining (another is
still awaited), step, checkpoint, shutdown. They are counted where they fell; those that came too late to do anything do not
count. With --matrix each fault comes once in each phase to each victim, with the timeouts that are the command's defaults.

Every fault must be detected in time and named, no slow process may be ended, and every training must end with the weights of
an undisturbed one, bit for bit. Prints each fault, and a table. Exit codes: 0 success, 1 failure."""
import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults
from training_job import LONG_STEPS, PHASES, SHORT, Failed, Job

PEER_TIMEOUT = 8.0  # the command's default
FOUND_WITHIN = 10.0  # seconds
GOAL = 5.0  # seconds from SIGKILL to the next step
ATTEMPTS = 6  # to hit a phase
HELD_FOR = 6.0  # seconds at most that one is kept from coming
TRANSPORTS = ("shared_memory", "gloo")
WRITERS = ("chief", "all")  # of checkpoints


class Fault:
    """One of them: what, whom, where it was aimed at, and what came of it."""

    def __init__(self, means, rank, aim, delay=0.0, after=0):
        self.means, self.rank, self.aim = means, rank, aim
        self._delay, self._after = delay, after  # seconds into the phase, steps after the first
        self.fell_in = None
        self.detected = None  # seconds until it was reported
        self.recovered = None  # until the next step
        self.restarts = 0
        self.is_equal = None  # the weights that its training ended with, to those that nobody hurt

    @property
    def kind(self):
        return self.means.name

    @property
    def role(self):
        return "chief" if self.rank == 0 else "worker"

    def strike(self, job, life, disk):
        """Waits for the moment, and hurts. False if the training ended, or went another way, before."""
        try:
            if not self._come_to_its_phase(job, life):
                return False
            time.sleep(self._delay)
            phase = life.phase(job)
            self.at = time.monotonic()
            if not self.means.strike(life.ranks[self.rank], disk):
                return False
            self.fell_in = phase
            return True
        except ProcessLookupError:
            return False
        finally:
            life.let_go()

    def _come_to_its_phase(self, job, life):
        if self.aim == "start-up":
            return True
        if self.aim == "joining":
            return self._keep_them_waiting(job, life)
        reached = job.wait_until(lambda: self._is_reached(job, life) or life.is_over(), f"the phase {self.aim}")
        return bool(reached) and not life.is_over()

    def _keep_them_waiting(self, job, life):
        other = next(rank for rank in life.ranks if rank != self.rank)
        life.hold(other)
        end = time.monotonic() + HELD_FOR
        waits = lambda: job.first(rf"\[{self.rank}\].* Waiting for .*rank {other}\b", life.begun_at)
        job.wait_until(lambda: waits() or life.is_over() or time.monotonic() > end, "one that waits")
        return waits() is not None

    def _is_reached(self, job, life):
        if self.aim == "checkpoint":
            return job.is_writing() and life.first_step(job) is not None
        step, first = life.last_step(job), life.first_step(job)
        if step is None:
            return False
        last = job.training.steps
        return step >= (last if self.aim == "shutdown" else min(first + self._after, last - 1))

    def watch(self, job, life, until_steps=True):
        """Waits until the training continues (or is restarted, if no steps are asked for), or ends. Returns the life in
        which it does; None if the job has ended."""
        hurt = life
        while True:
            life = self._next_event(job, life)
            if life is None or life.steps(job) or (life is not hurt and not until_steps):
                break
        self.means.end()
        self.restarts = len(job.matches(r"restarted: restart \d+ of ", self.at))
        reported = job.first(self.means.sign(self.rank), self.at)
        self.detected = None if reported is None else reported - self.at
        if life and self.restarts and life.steps(job):
            self.recovered = life.steps(job)[0][0] - self.at
        return life

    def _next_event(self, job, life):
        """The life in which there is a step, or which is over; None if the job has ended."""
        def is_there():
            self.means.relieve(time.monotonic() - self.at, job.first(self.means.sign(self.rank), self.at) is not None)
            return life.is_over() or (life is not self._hurt and life.steps(job)) or self._has_passed(job, life)
        self._hurt = getattr(self, "_hurt", life)
        if not job.wait_until(is_there, f"what follows {self}"):
            return None
        return job.life_after(life.ranks, len(life.ranks)) if life.is_over() else life

    def _has_passed(self, job, life):
        """A slow phase that is over, in a training that continues."""
        return self.kind == "slow" and self.means.is_over and life.steps(job)

    def was_too_late(self):
        """It changed nothing, because the training needed no more what it took."""
        if self.restarts or self.kind == "slow":
            return False
        return self.detected is None

    def problem(self, limit):
        """What is wrong with what came of it; None where nothing is."""
        if self.kind == "slow":
            return f"ended {self.restarts} times for being slow" if self.restarts else None
        if self.detected is None:
            return "was not reported by name"
        if self.detected > limit:
            return f"was reported only after {self.detected:.1f} s"
        if not self.restarts and not self.means.may_be_survived:
            return "was reported, and nothing was restarted"
        return None

    def __str__(self):
        return f"{self.kind:7} of the {self.role:6} in {self.fell_in or self.aim:10}"

    def outcome(self):
        seconds = lambda value: "     -" if value is None else f"{value:5.2f}s"
        return f"reported {seconds(self.detected)}  next step {seconds(self.recovered)}  restarts {self.restarts}"


class Scratch:
    """Where jobs run: a folder of theirs, or a small disk where there has to be one."""

    def __init__(self, folder):
        self.folder = folder
        self.no_disk = None  # why there is no small disk
        try:
            faults.enter_own_mounts()
        except faults.NotPermitted as error:
            self.no_disk = str(error)

    def new(self, name, is_small):
        return faults.SmallDisk(self.folder / name) if is_small else None

    def remove(self, name, disk):
        disk.remove() if disk else shutil.rmtree(self.folder / name)


class Runner:
    """Trainings, and the faults they had."""

    def __init__(self, options, folder):
        self.options = options
        self.scratch = Scratch(folder)
        self.faults, self.too_late = [], []
        self.wanted = {}  # weights, by training

    def job(self, name, training=SHORT, transport="auto", disk=None, writers="chief"):
        where = self.scratch.folder / name
        return Job(self.options.command, where / "run" if disk else where, self.options.workers, self.options.peer_timeout,
                   training, transport=transport, writers=writers)

    def unhurt(self, training):
        if training not in self.wanted:
            name = f"unhurt-{len(self.wanted)}"
            with self.job(name, training) as job:
                self.wanted[training] = job.result()["weights_sha256"]
            self.scratch.remove(name, None)
        return self.wanted[training]

    def end(self, name, job, hurt):
        """Waits for the training's end, and compares."""
        wanted, sha256 = self.unhurt(job.training), job.result()["weights_sha256"]
        for fault in hurt:
            fault.is_equal = sha256 == wanted
        if sha256 != wanted:
            raise Failed(f"{name} ended with other weights: {sha256}, not {wanted}")

    def note(self, fault):
        """Counts and prints it; a fault that came too late is counted separately."""
        if fault.was_too_late():
            self.too_late.append(fault)
            return print(f"      {fault}  too late: it changed nothing", flush=True)
        self.faults.append(fault)
        problem = fault.problem(self.options.limit)
        print(f"  {len(self.faults):3} {fault}  {fault.outcome()}{'  WRONG: ' + problem if problem else ''}", flush=True)

    def problems(self):
        return [f"{fault}: {problem}" for fault in self.faults if (problem := fault.problem(self.options.limit))]


class Soak(Runner):
    """Random faults, as many as are wanted."""

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self._draw = random.Random(options.seed)
        self._jobs = 0

    def run(self):
        self.unhurt(SHORT)
        while len(self.faults) < self.options.faults:
            self._jobs += 1
            self._run_job(f"job-{self._jobs}")

    def _run_job(self, name):
        disk = self.scratch.new(name, self.scratch.no_disk is None and self._draw.random() < 0.5)
        before = len(self.faults)
        with self.job(name, transport=self._draw.choice(TRANSPORTS), disk=disk, writers=self._draw.choice(WRITERS)) as job:
            self._hurt(job, disk)
            self.end(name, job, self.faults[before:])
        print(f"  training {self._jobs} ended with the same weights, after {len(self.faults)} faults", flush=True)
        self.scratch.remove(name, disk)

    def _hurt(self, job, disk):
        """Faults until there are enough, or the training is through."""
        life, next_one = job.life_after({}, self.options.workers), self._next_fault(disk)
        while life and len(self.faults) < self.options.faults:
            fault, next_one = next_one, self._next_fault(disk)
            if fault.strike(job, life, disk):
                life = fault.watch(job, life, until_steps=next_one.aim not in ("start-up", "joining"))
                self.note(fault)
            elif life.is_over():
                life = job.life_after(life.ranks, self.options.workers)

    def _next_fault(self, disk):
        kinds = [name for name in faults.NAMES if disk or name != "disk"]
        means = faults.means_of(self._draw.choice(kinds), slow_for=self._draw.uniform(0.5, 2.0))
        rank = self._draw.choice(means.ranks or range(self.options.workers))
        aim = self._draw.choice(PHASES)
        longest = {"start-up": -0.4, "shutdown": -0.9}.get(aim, -1.5)
        return Fault(means, rank, aim, 10 ** self._draw.uniform(-4, longest), self._draw.randint(1, 40))


class Matrix(Runner):
    """Each fault once in each phase, to each victim: (kind, phase, rank)."""
    CASES = tuple(itertools.product(faults.NAMES, PHASES, (0, 1)))
    # At start-up there is no connection yet; and a slow process is waited for in the same way in both phases.
    LEFT_OUT = {("socket", "start-up"), ("slow", "joining")}

    @classmethod
    def cases(cls, only=""):
        return [(kind, phase, rank) for kind, phase, rank in cls.CASES if (kind, phase) not in cls.LEFT_OUT
                and rank in (faults.means_of(kind, 0).ranks or (0, 1))
                and re.search(only, f"{kind} {phase} {'worker' if rank else 'chief'}")]

    def run(self, cases):
        for number, case in enumerate(cases):
            if case[0] == "disk" and self.scratch.no_disk:
                print(f"      disk in {case[1]}: left out, {self.scratch.no_disk}", flush=True)
            else:
                self._run_case(number, *case)

    def _run_case(self, number, kind, phase, rank):
        training = LONG_STEPS if kind == "slow" else SHORT
        self.unhurt(training)
        for attempt in range(ATTEMPTS):
            name = f"case-{number}-{attempt}"
            fault = Fault(faults.means_of(kind, slow_for=60.0 if phase != "shutdown" else 5.0), rank, phase,
                          delay=0.02 * attempt if phase == "start-up" else 0.0, after=20 if training is SHORT else 1)
            disk = self.scratch.new(name, kind == "disk")
            with self.job(name, training, TRANSPORTS[number % 2], disk, WRITERS[number // 2 % 2]) as job:
                life = job.life_after({}, self.options.workers)
                has_struck = life and fault.strike(job, life, disk)
                if has_struck:
                    fault.watch(job, life)
                self.end(name, job, [fault])
            self.scratch.remove(name, disk)
            if has_struck:
                self.note(fault)
            if has_struck and fault.fell_in == phase and not fault.was_too_late():
                return
        raise Failed(f"{kind} was to hit rank {rank} in {phase}, and did not in {ATTEMPTS} attempts")


def times(values):
    values = [value for value in values if value is not None]
    return f"{statistics.median(values):6.2f} {max(values):6.2f}" if values else "     -      -"


def table(counted, too_late=()):
    """By fault, victim and phase."""
    lines = [f"{'fault':7} {'victim':6} {'phase':10} {'count':>5}  {'reported after':>13}  {'next step after':>13}  restarts  weights",
             f"{'':31}  {'median  worst':>14}  {'median  worst':>15}"]
    order = lambda each: (faults.NAMES.index(each.kind), each.role, PHASES.index(each.fell_in))
    for _, group in itertools.groupby(sorted(counted, key=order), order):
        group = list(group)
        one = group[0]
        weights = "unknown" if any(each.is_equal is None for each in group) else \
                  "equal" if all(each.is_equal for each in group) else "OTHER"
        lines.append(f"{one.kind:7} {one.role:6} {one.fell_in:10} {len(group):5}   {times(each.detected for each in group)}    "
                     f"{times(each.recovered for each in group)}  {sum(each.restarts for each in group):8}  {weights}")
    if too_late:
        lines.append(f"{len(too_late)} more came too late, when the training needed no more what they took")
    kills = [each.recovered for each in counted if each.kind == "SIGKILL" and each.recovered is not None]
    if kills:
        lines.append(f"from SIGKILL to the next step: median {statistics.median(kills):.2f} s, worst {max(kills):.2f} s "
                     f"(goal on an idle machine: {GOAL:.0f} s)")
    return "\n".join(lines)


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--matrix", action="store_true", help="each fault once in each phase, instead of random ones")
    parser.add_argument("--only", metavar="REGEX", default="", help="of the matrix, cases like 'SIGSTOP shutdown chief'")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="draws the moments again")
    parser.add_argument("--workers", type=int, default=2, help="processes of a training (default 2)")
    parser.add_argument("--peer-timeout", type=float,
                        help="seconds until a silent process is lost (default 5; --matrix: 8, as the command's)")
    parser.add_argument("--limit", type=float, default=FOUND_WITHIN, help="seconds until a fault has to be reported (default 10)")
    parser.add_argument("--command", default="build/release/bin/brigade", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.command = str(pathlib.Path(options.command).resolve())
    options.peer_timeout = options.peer_timeout or (PEER_TIMEOUT if options.matrix else 5.0)
    return options


def main(words=None, cases=None):
    options = parse(words)
    if options.matrix:
        cases = Matrix.cases(options.only) if cases is None else cases
        print(f"{len(cases)} cases in trainings of {options.workers} processes", flush=True)
    else:
        print(f"seed {options.seed}: {options.faults} faults in trainings of {options.workers} processes", flush=True)
    begin = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="brigade-soak-"))
    runner = (Matrix if options.matrix else Soak)(options, folder)
    if runner.scratch.no_disk:
        print(f"no full disks: {runner.scratch.no_disk}", flush=True)
    problems = []
    try:
        runner.run(cases) if options.matrix else runner.run()
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Failed as error:
        problems = [str(error), f"seed {options.seed}; what it left is in {folder}"]
    else:
        shutil.rmtree(folder)
    problems = runner.problems() + problems
    print(table(runner.faults, runner.too_late))
    for problem in problems:
        print(f"soak: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"{len(runner.faults)} faults in {time.monotonic() - begin:.0f} s; all trainings ended with the weights of the one "
          "that nobody hurt")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # so that it takes its job with it
    sys.exit(main())

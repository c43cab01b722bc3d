#!/usr/bin/env python3
"""Hurts trainings with parameter servers again and again, and proves that no update was lost or doubled.

A job has two servers, a chief and three workers, each a process (tests/ps/ps_member.cpp). Faults come one after another, at
random moments: SIGKILL, and the process is started again; SIGSTOP for less than a lease ("pause") and for longer ("stop"), and
SIGCONT; SIGSTOP, a successor, and SIGCONT ("replace": the old process has to end); cut connections ("cut"). The modes come in
turn. From each fault on, until all workers push again, no longer than the limit may pass without a push of another worker that is
acknowledged, and for a server (if it was stopped, from SIGCONT on) without one that it, or its successor, acknowledges. When a job has ended, its servers are started once more, and
what they have on their disks is compared with the histories of all processes (tools/push_history.py). With --replicas each server
has two processes, and either is hurt as often.

Prints each fault, and a report as JSON in the last line. Exit codes: 0 success, 1 failure."""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import faults
from push_history import Histories, problems
from training_job import Failed, own_environment

MODES = ("async", "ssp", "sync")
SERVERS = ("ps:0", "ps:1")
REPLICAS = ("ps_replica:0", "ps_replica:1")
TRAINERS = ("chief:0", "worker:0", "worker:1", "worker:2")  # by rank
AGGREGATE = len(TRAINERS) - 1
LEASE = 1.5  # of ps_member
PAUSE, STOP = 0.5, 2 * LEASE
REPLACED = 3  # the exit code
FAULTS_OF_A_JOB = 8
LAST_STEPS = 100  # after the last fault: more than are made while the target is written
DEADLINE = 90.0  # seconds in which nothing happens are a hang
PORTS = range(15000, 30000)  # the system gives these to nobody by itself


class Fault:
    """What, whom, how long after the job is at work; and what came of it."""

    def __init__(self, kind, victim, delay):
        self.kind, self.victim, self.delay = kind, victim, delay
        self.recovered = None  # the longest time, in seconds, in which the training did not continue

    def is_of_server(self):
        return self.victim in SERVERS + REPLICAS

    def server(self):
        """Of which the victim is a process."""
        return int(self.victim.split(":")[1])

    def __str__(self):
        return f"{self.kind:7} of {self.victim:12}"


def servers_of(has_replicas):
    return SERVERS + REPLICAS if has_replicas else SERVERS


def draw_faults(kills, others, draw, has_replicas=False):
    """Kills, and as many other faults, in a random order; each victim in turn, so that few faults are of different ones."""
    servers = servers_of(has_replicas)
    stops = [(kind, victim) for kind in ("pause", "stop", "cut") for victim in (*servers, *TRAINERS)]
    stops += [("replace", victim) for victim in TRAINERS]
    victims = [("kill", victim) for victim in (*servers, *TRAINERS)]
    draw.shuffle(stops)
    draw.shuffle(victims)
    drawn = [*itertools.islice(itertools.cycle(victims), kills), *itertools.islice(itertools.cycle(stops), others)]
    draw.shuffle(drawn)
    return [Fault(kind, victim, draw.uniform(0, 0.5)) for kind, victim in drawn]


def free_port():
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Process:
    """One task's."""

    def __init__(self, member, arguments, environment, log):
        with log.open("ab") as file:
            self._process = subprocess.Popen([member, *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL, stdout=file,
                                             stderr=file)
        self.pid = self._process.pid
        self.log = log

    def signal(self, number):
        self._process.send_signal(number)

    def code(self):
        """Its exit code; nothing while it runs."""
        return self._process.poll()

    def end(self):
        """Also one that is stopped."""
        if self.code() is None:
            self._process.kill()
        return self._process.wait(DEADLINE)


class Ack:
    """A push that a server has acknowledged."""

    def __init__(self, life, event):
        self.at, self.server = event["at"], f"ps:{event['server']}"
        self.trainer = TRAINERS[life.rank]
        self.sent = life.last_sent[event["server"], event["number"]]


class Job:
    """A training; its processes are gone when the block ends."""

    def __init__(self, member, folder, mode, has_replicas=False):
        self._member, self.folder, self.mode = member, folder, mode
        self.servers = servers_of(has_replicas)
        (folder / "history").mkdir(parents=True)
        (folder / "logs").mkdir()
        self.histories = Histories(folder / "history")
        self.acks, self.step = [], 0
        self.deaths = []  # (when, server): what it had not acknowledged may be gone
        self.processes, self._all = {}, []
        ports = set()
        while len(ports) < len(self.servers) + len(TRAINERS):
            ports.add(free_port())
        ports = [f"localhost:{port}" for port in ports]
        self._addresses = {"ps": ports[:2], "chief": ports[2:3], "worker": ports[3:6]}
        if has_replicas:
            self._addresses["ps_replica"] = ports[6:]

    def __enter__(self):
        for task in (*self.servers, *TRAINERS):
            self.start(task)
        return self

    def __exit__(self, *_):
        for process in self._all:
            process.end()

    def start(self, task, what=None):
        job, index = task.split(":")
        config = {"cluster": self._addresses, "task": {"type": job, "index": int(index)}}
        what = what or ("serve" if task in self.servers else self.mode)
        process = Process(self._member, [what, self.folder], {**own_environment(), "TF_CONFIG": json.dumps(config)},
                          self.folder / "logs" / task.replace(":", "-"))
        self.processes[task] = process
        self._all.append(process)

    def poll(self):
        """Reads what is new in the histories."""
        new = []
        for life, event in self.histories.poll():
            if event["event"] == "answer":
                new.append(Ack(life, event))
            elif event["event"] == "pulled" and event["server"] == 0:
                self.step = max(self.step, event["step"])
        self.acks += sorted(new, key=lambda each: each.at)

    def check_running(self):
        for task, process in self.processes.items():
            if process.code() is not None:
                raise Failed(f"{task} has ended with {process.code()}: {self.tail(task)}")

    def tail(self, task):
        lines = self.processes[task].log.read_text(errors="replace").splitlines()
        return " | ".join(lines[-6:])

    def wait_until(self, condition, what, are_ends_allowed=False):
        end = time.monotonic() + DEADLINE
        while True:
            self.poll()
            result = condition()
            if result:
                return result
            if not are_ends_allowed:
                self.check_running()
            if time.monotonic() > end:
                tails = "; ".join(f"{task}: {self.tail(task)}" for task in self.processes)
                raise Failed(f"{what} did not come in {DEADLINE:.0f} s; {tails}")
            time.sleep(0.005)

    def wait_at_work(self):
        """Until every worker has pushed to every server, from now on."""
        moment = self.now()
        wanted = set(itertools.product(TRAINERS, SERVERS))
        self.wait_until(lambda: wanted <= {(each.trainer, each.server) for each in moment.acks()}, "a push of each worker")

    def now(self):
        self.poll()
        return Moment(self)

    def finish(self):
        """Ends the training, and returns what is wrong with its histories."""
        self.poll()
        target = self.folder / "target"
        target.with_suffix(".new").write_text(str(self.step + LAST_STEPS))
        target.with_suffix(".new").replace(target)
        self._wait_ended((*TRAINERS, *self.servers))
        self.start("chief:0", f"read-{self.mode}")
        for task in self.servers:  # once more, with what is on their disks
            self.start(task)
        reader = self.processes["chief:0"].pid
        self._wait_ended(("chief:0", *self.servers))
        lives = self.histories.lives
        last = {each.server: each for path, life in lives.items() if path.name == f"0-{reader}" for each in life.readings}
        return problems(lives.values(), AGGREGATE if self.mode == "sync" else 0, self.deaths, last.values())

    def _wait_ended(self, tasks):
        def have_ended():
            codes = {task: self.processes[task].code() for task in tasks}
            bad = [task for task, code in codes.items() if code]
            if bad:
                raise Failed(f"{bad[0]} has ended with {codes[bad[0]]}: {self.tail(bad[0])}")
            return None not in codes.values()
        self.wait_until(have_ended, "the end of all processes", are_ends_allowed=True)
        self.poll()


class Moment:
    """In the course of a job, and what was acknowledged since."""

    def __init__(self, job):
        self._acks, self._first = job.acks, len(job.acks)
        self.at = time.monotonic_ns()

    def acks(self):
        """Of pushes that were sent since."""
        return [each for each in self._acks[self._first:] if each.sent >= self.at]


class Strike:
    """A fault of a running job: does it, and measures for how long the training stands still."""

    def __init__(self, job, fault):
        self._job, self._fault = job, fault
        self._victim = job.processes[fault.victim]

    def run(self):
        time.sleep(self._fault.delay)
        self._begin = self._job.now()
        getattr(self, "_" + self._fault.kind)()

    def _kill(self):
        self._victim.signal(signal.SIGKILL)
        if self._victim.end() != -signal.SIGKILL:
            raise Failed(f"{self._fault.victim} had ended before it was killed: {self._job.tail(self._fault.victim)}")
        self._note_death()
        self._job.start(self._fault.victim)
        self._wait_recovered()

    def _note_death(self):
        if self._fault.is_of_server():
            self._job.deaths.append((time.monotonic_ns(), self._fault.server()))

    def _pause(self):
        self._stop_for(PAUSE)

    def _stop(self):
        self._stop_for(STOP)

    def _stop_for(self, seconds):
        self._victim.signal(signal.SIGSTOP)
        if len(self._job.servers) > len(SERVERS):
            self._note_death()  # the other process of the server may replace it
        try:
            time.sleep(seconds)  # the others train on meanwhile, or wait
        finally:
            self._victim.signal(signal.SIGCONT)
        if self._fault.is_of_server():
            self._begin = self._job.now()
        self._wait_recovered()

    def _replace(self):
        """The successor comes while the old process sleeps."""
        self._victim.signal(signal.SIGSTOP)
        self._job.start(self._fault.victim)
        self._wait_recovered()
        self._victim.signal(signal.SIGCONT)
        self._job.wait_until(lambda: self._victim.code() is not None, f"the end of the old {self._fault.victim}")
        if self._victim.code() != REPLACED:
            raise Failed(f"the old {self._fault.victim} ended with {self._victim.code()}: {self._job.tail(self._fault.victim)}")

    def _cut(self):
        if not faults.cut_connections(self._victim.pid):
            raise Failed(f"{self._fault.victim} has no connections")
        self._wait_recovered()

    def _wait_recovered(self):
        self._job.wait_at_work()
        times = [self._begin.at, *sorted(each.at for each in self._begin.acks() if self._proves(each))]
        self._fault.recovered = max(after - before for before, after in itertools.pairwise(times)) / 1e9

    def _proves(self, ack):
        """That the training went on."""
        return ack.server == SERVERS[self._fault.server()] if self._fault.is_of_server() else ack.trainer != self._fault.victim


class Soak:
    """Jobs, until there were as many faults as are wanted."""

    def __init__(self, options, folder):
        self._options, self._folder = options, folder
        draw = random.Random(options.seed)
        self._planned = draw_faults(options.kills, options.stops, draw, options.replicas)
        self.done = []  # (mode, fault)
        self.problems = []
        self.pushes = 0

    def run(self):
        modes = itertools.cycle(MODES if self._options.mode == "all" else (self._options.mode,))
        for number, mode in zip(itertools.count(1), modes):
            planned, self._planned = self._planned[:FAULTS_OF_A_JOB], self._planned[FAULTS_OF_A_JOB:]
            if not planned:
                return
            self._run_job(number, mode, planned)

    def _run_job(self, number, mode, planned):
        folder = self._folder / f"job-{number}"
        with Job(self._options.member, folder, mode, self._options.replicas) as job:
            job.wait_at_work()
            for fault in planned:
                self._strike(job, fault)
            job.wait_at_work()
            found = job.finish()
        self.pushes += len(job.acks)
        self.problems += [f"job {number}, {mode}: {each}" for each in found[:20]]
        print(f"  job {number}, {mode}: {len(job.acks)} pushes were acknowledged, {len(found)} problems", flush=True)
        if not found:
            shutil.rmtree(folder)

    def _strike(self, job, fault):
        try:
            Strike(job, fault).run()
        except faults.NotPermitted as error:
            return print(f"      {fault} in {job.mode}: left out, {error}", flush=True)
        self.done.append((job.mode, fault))
        is_late = fault.recovered > self._options.limit
        if is_late:
            self.problems.append(f"{fault} in {job.mode}: the training stood still for {fault.recovered:.2f} s")
        print(f"  {len(self.done):3} {fault} in {job.mode:5}  stood still for {fault.recovered:5.2f} s{'  LATE' if is_late else ''}",
              flush=True)

    def report(self, seconds):
        def times(chosen):
            values = [fault.recovered for _, fault in self.done if chosen(fault)]
            return {"count": len(values), "median": round(statistics.median(values), 3), "worst": round(max(values), 3)} if values else {
                "count": 0}
        roles = {"server": Fault.is_of_server, "chief": lambda fault: fault.victim == TRAINERS[0],
                 "worker": lambda fault: fault.victim in TRAINERS[1:]}
        kinds = sorted({fault.kind for _, fault in self.done})
        recovery = {f"{kind} {role}": times(lambda fault: fault.kind == kind and is_of(fault))
                    for kind in kinds for role, is_of in roles.items()}
        return {"seed": self._options.seed, "seconds": round(seconds, 1),
                "kills": sum(fault.kind == "kill" for _, fault in self.done), "faults": len(self.done), "acknowledged": self.pushes,
                "seconds_without_a_push": {name: value for name, value in recovery.items() if value["count"]},
                "problems": self.problems}


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev soak --ps", description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--stops", type=int, help="faults of other kinds (default: half as many)")
    parser.add_argument("--mode", choices=("all", *MODES), default="all", help="of the trainings (default: in turn)")
    parser.add_argument("--replicas", action="store_true", help="each server has a replica")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="draws the same faults again")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for which a training may stand still (default 5)")
    parser.add_argument("--member", default="build/release/bin/ps_member", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.member = str(pathlib.Path(options.member).resolve())
    options.stops = options.kills // 2 if options.stops is None else options.stops
    return options


def main(words=None):
    options = parse(words)
    print(f"seed {options.seed}: {options.kills} kills and {options.stops} other faults", flush=True)
    begin = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="brigade-ps-soak-"))
    soak = Soak(options, folder)
    try:
        soak.run()
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except Failed as error:
        soak.problems.append(str(error))
    if soak.problems:
        print(f"soak: seed {options.seed}; what it left is in {folder}", file=sys.stderr)
        for problem in soak.problems:
            print(f"soak: {problem}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    print(json.dumps(soak.report(time.monotonic() - begin)))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # so that it takes its job with it
    sys.exit(main())

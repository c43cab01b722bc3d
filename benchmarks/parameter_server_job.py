"""Trains the MNIST CNN by `brigade train`, a process a task: with parameter servers (`brigade ps`, on loopback), or in one
process without. Prints one JSON line (peers/measure.py): the images a second of all workers together.

Counted are the job's steps, which the chief reports, from when all workers have joined and the warm-up is over. In every
block of them the other workers must have made some.
"""

import argparse
import os
import pathlib
import re
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time

from peers import measure, ranks

START_SECONDS = 60
PATIENCE_SECONDS = 30
TRAIN = ["--model", "mnist_cnn", "--dataset", "synthetic", "--optimizer", "sgd", "--learning-rate", "0.001", "--threads-per-replica", "1",
         "--eval", "none", "--steps", "1000000", "--log-every", "0"]
STEP = re.compile(r"^step (\d+)/")
JOINED = re.compile(r"(/job:worker/task:\d+) has joined")


class JobFailed(Exception):
    """The text says why."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brigade", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("."), help="where a folder for the servers' logs is made")
    parser.add_argument("--strategy", choices=["one_device", "towers", "parameter_server"], default="parameter_server")
    parser.add_argument("--replicas", type=int, default=2, help="workers, or towers")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--mode", choices=["async", "sync"], default="async")
    parser.add_argument("--key", action="store_true", help="the tasks have a key, so they use TLS")
    parser.add_argument("--transport", choices=["auto", "tcp"], default="auto", help="between workers and servers")
    parser.add_argument("--pin", action="store_true", help="one core a worker")
    parser.add_argument("--batch", type=int, default=128, help="examples a replica and step")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm-up-seconds", type=float, default=2)
    parser.add_argument("--steps-per-block", type=int, default=5, help="reports of the chief")
    parser.add_argument("--name", default="brigade")
    return parser.parse_args()


def is_async(options):
    return options.strategy == "parameter_server" and options.mode == "async"


def examples_per_step(options):
    """How many examples a step of the job has: an asynchronous one is of one worker."""
    return options.batch * (1 if is_async(options) else options.replicas)


def commands(options, folder):
    """Task to command line; the chief is the first worker."""
    examples = ["--batch-size", options.batch, "--train-examples", measure.BATCHES * options.batch * options.replicas]
    train = [options.brigade, "train", *TRAIN, *examples, "--strategy", options.strategy]
    if options.strategy != "parameter_server":
        return {"worker:0": [*train, "--devices", ",".join(f"cpu:{i}" for i in range(options.replicas))]}
    addresses = [f"127.0.0.1:{port}" for port in ranks.free_ports(options.servers + options.replicas)]
    cluster = ["--cluster", f"ps={','.join(addresses[:options.servers])};worker={','.join(addresses[options.servers:])}"]
    if options.key:
        cluster += ["--key-file", write_key(folder / "key")]
    serve = [options.brigade, "ps", *cluster, "--folder", folder]
    tasks = {f"ps:{i}": [*serve, "--task", f"ps:{i}"] for i in range(options.servers)}
    train += [*cluster, "--mode", options.mode, "--server-transport", options.transport]
    return tasks | {f"worker:{i}": [*train, "--task", f"worker:{i}"] for i in range(options.replicas)}


def write_key(path):
    path.touch(0o600)
    path.write_text(secrets.token_hex(32))
    return path


class Output:
    """The lines of all processes, with the times at which they came."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.rests = {}
        self.last = {}

    def add(self, task, pipe):
        self.rests[task] = b""
        self.last[task] = "no message"
        self.selector.register(pipe, selectors.EVENT_READ, task)

    def lines(self, deadline):
        """(task, line, time) until the deadline. Throws JobFailed if a process ends."""
        while time.perf_counter() < deadline:
            for key, _ in self.selector.select(max(deadline - time.perf_counter(), 0)):
                read, now = os.read(key.fd, 1 << 16), time.perf_counter()
                if not read:
                    raise JobFailed(f"{key.data} ended: {self.last[key.data]}")
                *lines, self.rests[key.data] = (self.rests[key.data] + read).split(b"\n")
                for line in lines:
                    self.last[key.data] = line.decode(errors="replace").strip()
                    yield key.data, self.last[key.data], now


class Job:
    """The processes of one training."""

    def __init__(self, options, folder, processes):
        self.options = options
        self.tasks = {}
        self.output = Output()
        cores = sorted(os.sched_getaffinity(0))
        for task, command in commands(options, folder).items():
            job, index = task.split(":")
            pinned = {cores[int(index) % len(cores)]} if options.pin and job == "worker" else None
            self.tasks[task] = processes.start(command, pinned, env=ranks.own_environment(), stdin=subprocess.DEVNULL,
                                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.output.add(task, self.tasks[task].stdout)

    def workers(self):
        return [task for task in self.tasks if task.startswith("worker:")]

    def wait_until_all_train(self):
        expected = len(self.workers()) if "ps:0" in self.tasks else 0
        joined, is_training = set(), False
        for task, line, _ in self.output.lines(time.perf_counter() + START_SECONDS):
            if task == "ps:0" and (found := JOINED.search(line)):
                joined.add(found[1])
            is_training = is_training or task == "worker:0" and bool(STEP.match(line))
            if is_training and len(joined) == expected:
                return
        raise JobFailed(f"no training within {START_SECONDS} s: {self.output.last}")

    def reports(self, seconds, at_least=0):
        """(time, step) of the chief's reports in the next seconds, longer if these are fewer than `at_least`."""
        found = []
        end = time.perf_counter() + seconds
        for task, line, now in self.output.lines(end + PATIENCE_SECONDS):
            if task == "worker:0" and (step := STEP.match(line)):
                found.append((now, int(step[1])))
                if now >= end and len(found) >= at_least:
                    return found
        raise JobFailed(f"only {len(found)} reports within {seconds + PATIENCE_SECONDS} s")

    def peak_rss_mib(self):
        return sum(measure.peak_rss_mib(process.pid) for process in self.tasks.values())


def block_times(reports, options):
    """The seconds that so many steps of every worker take, by each block of reports, (time, step) each. Throws JobFailed if
    the chief trained alone in one: a report is of one of its own steps, and asynchronous steps are of all workers."""
    blocks = reports[::options.steps_per_block]
    wanted = options.replicas * options.batch * options.steps_per_block
    times = []
    for before, after in zip(blocks, blocks[1:]):
        steps = after[1] - before[1]
        if is_async(options) and options.replicas > 1 and steps <= options.steps_per_block:
            raise JobFailed(f"the chief alone made the {steps} steps of a block")
        times.append((after[0] - before[0]) * wanted / (steps * examples_per_step(options)))
    return times


def train(options):
    with tempfile.TemporaryDirectory(prefix="job-", dir=options.directory) as folder, ranks.Processes() as processes:
        job = Job(options, pathlib.Path(folder), processes)
        job.wait_until_all_train()
        job.reports(options.warm_up_seconds)
        reports = job.reports(options.seconds, at_least=3 * options.steps_per_block + 1)
        peak = job.peak_rss_mib()
    measure.report(options.name, options.replicas, options.batch, options.steps_per_block, block_times(reports, options), peak)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        train(parse_arguments())
    except JobFailed as error:
        sys.exit(f"parameter_server_job: {error}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kills trainings with logical replicas again and again, resumes each on another layout, and compares what they end with.

A training is started by `brigade launch --elastic` on a random number of processes with a random number of devices each. At
random moments one of its processes is killed (it continues with fewer), one is added, or the whole job is killed and started
on another layout. It must end with the weights of one process that nobody hurt, bit for bit. Exit codes: 0 success, 1 failure."""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from training_job import DEADLINE, Failed, Job, Training, own_environment

LOGICAL = 8
MOST_PROCESSES = 4
MOST_DEVICES = 2
EVENTS = ("kill one", "add one", "kill all")
# Dropout, momentum and clipping; a second or two of steps.
TRAINING = Training(120, "--hidden", "64,64", "--train-examples", "2048", "--global-batch-size", "88", "--optimizer", "sgd",
                    "--momentum", "0.9", "--clip-norm", "1", "--save-every", "5steps", "--logical-replicas", str(LOGICAL))


def devices(count):
    return ("--devices", ",".join(f"cpu:{i}" for i in range(count)))


class ElasticJob(Job):
    """A training below `brigade launch --elastic`."""

    def __init__(self, command, model_dir, processes, devices_each):
        arguments = ["launch", "--nproc", processes, "--elastic", f"1:{MOST_PROCESSES}", "--max-restarts", 1000, "--grace", 2,
                     "--peer-timeout", 5, "--", command, *TRAINING.flags, *devices(devices_each), "--peer-timeout", "5s",
                     "--model-dir", model_dir]
        self._begin(command, arguments, model_dir, TRAINING)

    def steps_since(self, moment):
        return self.matches(r"\bstep (\d+)/", moment)

    def kill_one(self, rng):
        ranks = self.ranks()
        if not ranks:
            return False
        try:
            os.kill(rng.choice(sorted(ranks.values())), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def add_one(self):
        self._process.send_signal(signal.SIGUSR1)
        return True

    def kill_all(self):
        self._process.kill()
        return True


def unbroken(command, folder):
    """The weights of one process that nobody hurts."""
    flags = [each if each != "multi_worker_mirrored" else "one_device" for each in TRAINING.flags]
    result = subprocess.run([command, *flags, "--model-dir", str(folder)], env=own_environment(), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=DEADLINE, check=False)
    if result.returncode != 0:
        raise Failed(f"the unbroken training ended with {result.returncode}: {result.stderr[-400:]}")
    return json.loads(result.stdout.splitlines()[-1])["weights_sha256"]


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.rng = random.Random(options.seed)
        self.events = []
        self.layouts = set()
        self.trainings = 0

    def run(self):
        wanted = unbroken(self.options.command, self.folder / "unbroken")
        while len(self.events) < self.options.events:
            model_dir = self.folder / f"training-{self.trainings}"
            found = self.one_training(model_dir)
            if found != wanted:
                raise Failed(f"training {self.trainings} ended with the weights {found}, not {wanted}")
            self.trainings += 1
            shutil.rmtree(model_dir)
            print(f"training {self.trainings}: equal after {len(self.events)} events", flush=True)

    def one_training(self, model_dir):
        while True:
            layout = (self.rng.randint(1, MOST_PROCESSES), self.rng.randint(1, MOST_DEVICES))
            self.layouts.add(layout)
            with ElasticJob(self.options.command, model_dir, *layout) as job:
                result = self.hurt(job)
            if result is not None:
                return result

    def hurt(self, job):
        """The weights that the job ends with; None if it was killed."""
        moment = 0.0
        while True:
            # After an event the training has to come back: a step, or its end.
            if not job.wait_until(lambda: job.steps_since(moment), "a step"):
                return job.result()["weights_sha256"]
            time.sleep(self.rng.uniform(0.0, 0.6))  # draws the moment; nothing depends on it
            if not job.is_running():
                return job.result()["weights_sha256"]
            event = self.rng.choice(EVENTS)
            moment = time.monotonic()
            struck = {"kill one": lambda: job.kill_one(self.rng), "add one": job.add_one, "kill all": job.kill_all}[event]()
            if struck:
                self.events.append(event)
            if event == "kill all":
                return None


def main():
    parser = argparse.ArgumentParser(prog="./dev soak --elastic", description=__doc__.split("\n\n")[0])
    parser.add_argument("--events", type=int, default=100, help="kills and changes of size (default 100)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="draws the moments again")
    parser.add_argument("--command", default="build/release/bin/brigade", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.command = str(pathlib.Path(options.command).resolve())
    print(f"seed {options.seed}: {options.events} events, {LOGICAL} logical replicas", flush=True)
    begin = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="brigade-elastic-"))
    soak = Soak(options, folder)
    try:
        soak.run()
    except Failed as error:
        print(f"soak: {error}\nsoak: seed {options.seed}; what it left is in {folder}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)
    counts = ", ".join(f"{soak.events.count(event)} x {event}" for event in EVENTS)
    print(f"{len(soak.events)} events ({counts}) in {soak.trainings} trainings on {len(soak.layouts)} layouts, "
          f"{time.monotonic() - begin:.0f} s: all ended with the weights of one unbroken process")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # so that it takes its job with it
    sys.exit(main())

#!/usr/bin/env python3
"""The demo: times one replica, trains over two, and prints test accuracy and speed-up.

usage: demo.py [--gpu] BRIGADE BUILD_FOLDER

--gpu: replicas are on GPUs: two cards, or two logical GPUs of the only card.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

EPOCHS = 2
BATCH_SIZE = 128  # a replica
TIMED_STEPS = 60  # of the one-replica run: enough to measure, short enough to wait for


class DemoFailed(Exception):
    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def train(brigade, model_dir, *arguments):
    """Runs `brigade train` and returns the object in the last line of its output. Its other lines are passed on."""
    command = [brigade, "train", "--model", "mnist_cnn", "--dataset", "fashion_mnist", "--batch-size", str(BATCH_SIZE),
               "--optimizer", "adam", "--learning-rate", "0.001", "--model-dir", str(model_dir), "--overwrite", "--json",
               *arguments]
    print("$ " + " ".join(command), flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        last = ""
        try:
            for line in process.stdout:
                if last:
                    print(last, flush=True)
                last = line.strip()
            status = process.wait()
        except KeyboardInterrupt:  # the child got the signal too: it saves and ends by itself
            process.wait()
            raise
    if status != 0:
        raise DemoFailed(f"brigade train exited with {status}", status)
    try:
        return json.loads(last)
    except ValueError:
        raise DemoFailed(f"the last line of brigade train is not JSON: {last[:200]}", 1)


def summary(one, trained):
    """The closing lines. `one` is the run over one replica that `trained` is compared with; None if there was none."""
    lines = [f"test accuracy         {100 * trained['eval_accuracy']:.2f} % after {EPOCHS} epochs of Fashion-MNIST"]
    for run in filter(None, (one, trained)):
        lines.append(f"{run['replicas']} replica{'s' if run['replicas'] > 1 else ' '}            "
                     f"{run['examples_per_second']:.0f} images/s")
    if one is not None:
        speed_up = trained["examples_per_second"] / one["examples_per_second"]
        ideal = trained["replicas"]
        lines.append(f"speed-up              {speed_up:.2f}x over one replica ({100 * speed_up / ideal:.0f} % of {ideal}x)")
    return lines


def count_cards(brigade):
    """The GPUs of this machine that `brigade` can use."""
    devices = json.loads(subprocess.run([brigade, "devices", "--json"], check=True, capture_output=True, text=True).stdout)
    if not devices["cuda_built"]:
        raise DemoFailed(f"{brigade} was not built for GPUs; ./dev demo --gpu builds one that is", 2)
    return devices["gpu_cards"]


def two_gpus(cards):
    """The flags of two replicas on GPUs."""
    logical = [] if cards > 1 else ["--logical-gpus", "2"]
    return ["--strategy", "mirrored", "--devices", "gpu:0,gpu:1", *logical]


def compare(brigade, build, one_replica, two_replicas):
    print(f"1. One replica, {TIMED_STEPS} steps, for comparison")
    one = train(brigade, build / "demo-one-replica", *one_replica, "--steps", str(TIMED_STEPS), "--eval", "none")
    print(f"\n2. Two replicas, {EPOCHS} epochs")
    two = train(brigade, build / "demo", *two_replicas, "--epochs", str(EPOCHS))
    return summary(one, two)


def run_on_gpus(brigade, build):
    cards = count_cards(brigade)
    if cards == 0:
        raise DemoFailed("there is no GPU here that CUDA shows; ./dev demo trains on CPUs", 2)
    return compare(brigade, build, ["--strategy", "one_device", "--devices", "gpu:0"], two_gpus(cards))


def run(brigade, build):
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        print("This process may use one core only, so two replicas cannot be faster than one: training on one replica.")
        trained = train(brigade, build / "demo", "--strategy", "one_device", "--devices", "cpu:0", "--epochs", str(EPOCHS))
        return summary(None, trained)
    return compare(brigade, build, ["--strategy", "one_device", "--devices", "cpu:0"],
                   ["--strategy", "mirrored", "--devices", "cpu:0,cpu:1"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("brigade", metavar="BRIGADE")
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD_FOLDER")
    options = parser.parse_args()
    build = options.build
    try:
        lines = (run_on_gpus if options.gpu else run)(options.brigade, build)
    except DemoFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        raise SystemExit(error.status)
    except KeyboardInterrupt:
        raise SystemExit(130)
    print("\n" + "\n".join(lines))
    print(f"weights               {build / 'demo'} (brigade evaluate --model-dir {build / 'demo'} reads them)")


if __name__ == "__main__":
    main()

"""The large image models by `brigade bench`, each replica with one thread. Prints one JSON line (peers/measure.py)."""

import argparse
import json
import pathlib
import subprocess
import sys

from peers import measure, ranks


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brigade", type=pathlib.Path, required=True, help="the command")
    parser.add_argument("--model", required=True)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="examples a replica and step")
    parser.add_argument("--memory-format", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm-up-seconds", type=float, default=2)
    parser.add_argument("--steps-per-block", type=int, default=1)
    parser.add_argument("--seconds-per-step", type=float, default=1.5, help="a guess, by which --seconds becomes a number of steps")
    parser.add_argument("--name", default="brigade")
    return parser.parse_args()


def command(options):
    """As the peers: at least three blocks, 1000 classes, SGD with momentum, no auxiliary logits."""
    steps = max(3, round(options.seconds / options.seconds_per_step))
    warm_up = max(1, round(options.warm_up_seconds / options.seconds_per_step))
    strategy = "one_device" if options.replicas == 1 else "mirrored"
    flags = {"--model": options.model, "--strategy": strategy, "--devices": ",".join(f"cpu:{i}" for i in range(options.replicas)),
             "--batch-size": options.batch, "--classes": 1000, "--optimizer": "sgd", "--momentum": 0.9, "--learning-rate": 0.001,
             "--memory-format": options.memory_format, "--steps": steps, "--warmup-steps": warm_up}
    if options.model == "inception_v3":
        flags |= {"--aux-weight": 0, "--dropout": 0}
    return [str(word) for word in [options.brigade, "bench", "--json", *(word for flag in flags.items() for word in flag)]]


def main():
    options = parse_arguments()
    run = subprocess.run(command(options), env=ranks.own_environment(), stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    found = json.loads(run.stdout)
    median = found["milliseconds_per_step_median"] / 1e3
    measure.report(options.name, options.replicas, options.batch, 1, [median], found["peak_memory_bytes"] / 2**20)


if __name__ == "__main__":
    main()

"""Starts the processes of one job on this machine and ends with them; as a program, any command so:

    ranks.py --count 2 --pin COMMAND ARGUMENTS...

Each process gets what torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys

# Variables that would describe a cluster that the process is not in.
FOREIGN = ("TF_CONFIG", "BRIGADE_RENDEZVOUS", "BRIGADE_CLUSTER", "BRIGADE_SERVER_FOLDER", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_")


def free_ports(count):
    """Free ports, all different."""
    listeners = [socket.socket() for _ in range(count)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def torchrun_environments(count):
    """One a rank, as torchrun makes them."""
    job = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(free_ports(1)[0])}
    return [{**job, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def tf_config_environments(count):
    """One a worker, with a TF_CONFIG as TensorFlow's tutorials write it."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(count)]
    return [{"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})}
            for index in range(count)]


class Processes:
    """Processes that end with the `with` block that started them, however it ends: each is killed by its own id. None
    outlives this process unless it is killed outright."""

    def __enter__(self):
        self.started = []
        return self

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def start(self, command, cores=None, **more):
        """Starts `command`, on these cores alone if there are any; `more` is as for subprocess.Popen."""
        pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        self.started.append(subprocess.Popen([str(word) for word in command], preexec_fn=pin, **more))
        return self.started[-1]


def own_environment():
    """This process's environment without what would describe a cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def start(command, environments, pin=False, **more):
    """Runs `command` once an environment (`more` is in all of them), each on a core of its own if `pin`; returns the
    highest exit status. No process outlives this one unless it is killed outright."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    own = own_environment()
    cores = sorted(os.sched_getaffinity(0))
    with Processes() as processes:
        ranks = [processes.start(command, {cores[number % len(cores)]} if pin else None, env={**own, **more, **environment})
                 for number, environment in enumerate(environments)]
        return max(abs(process.wait()) for process in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--pin", action="store_true", help="one core each")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    sys.exit(start(options.command, torchrun_environments(options.count), options.pin))


if __name__ == "__main__":
    main()

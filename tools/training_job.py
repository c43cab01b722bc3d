"""A training below `brigade launch`, as those see it who hurt it: its processes, its lines, its phases, its end."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

PHASES = ("start-up", "joining", "step", "checkpoint", "shutdown")
DEADLINE = 240.0  # seconds without any progress are a hang


class Failed(Exception):
    """The training did not do what it must."""


class Training:
    """What is trained, and for how long."""

    def __init__(self, steps, *flags):
        self.steps = steps
        self.flags = ("train", "--strategy", "multi_worker_mirrored", "--model", "mlp", "--dataset", "synthetic", "--steps",
                      str(steps), "--eval", "none", "--log-every", "0", "--allow-oversubscription", "--json", *flags)


# Over in a second; ten checkpoints on the way, and one at the end.
SHORT = Training(155, "--hidden", "256,256", "--train-examples", "2048", "--batch-size", "64", "--save-every", "15steps")
# Steps of most of a second: ten times that is more than the others wait without a word.
LONG_STEPS = Training(5, "--hidden", "2048,2048,2048", "--train-examples", "2048", "--batch-size", "1024", "--save-every",
                      "2steps")


def own_environment():
    strangers = ("TF_CONFIG", "BRIGADE_RENDEZVOUS", "BRIGADE_GENERATION", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(strangers)}


def state_of(pid):
    """The letter of its state, and its parent; nothing for one that is gone."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], int(words[1])
    except (OSError, IndexError):
        return None


def is_alive(pid):
    state = state_of(pid)
    return state is not None and state[0] not in "ZX"


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
        state = state_of(pid)
        pid = state[1] if state else 0
        if pid == ancestor:
            return True
    return False


class Job:
    """`brigade launch` with a training below it; gone, with all of it, when the block ends."""

    def __init__(self, command, model_dir, workers=2, peer_timeout=5.0, training=SHORT, restarts=1000, transport="auto",
                 writers="chief"):
        arguments = ["launch", "--nproc", workers, "--max-restarts", restarts, "--grace", 2, "--peer-timeout", peer_timeout,
                     "--", command, *training.flags, "--peer-timeout", f"{peer_timeout}s", "--transport", transport,
                     "--checkpoint-writers", writers, "--model-dir", model_dir]
        self._begin(command, arguments, model_dir, training)

    def _begin(self, command, arguments, model_dir, training):
        self.model_dir = pathlib.Path(model_dir)
        self.training = training
        self._process = subprocess.Popen([command, *map(str, arguments)], env=own_environment(), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lock = threading.Lock()
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
            with self._lock:
                self._lines.append((time.monotonic(), line.rstrip("\n")))

    def is_running(self):
        return self._process.poll() is None

    def tail(self, count=12):
        with self._lock:
            return "\n".join(f"    {line}" for _, line in self._lines[-count:])

    def matches(self, pattern, since, until=float("inf")):
        """The lines written in this time in which this is found: when, and the match."""
        with self._lock:
            lines = [each for each in self._lines if since <= each[0] <= until]
        found = ((when, re.search(pattern, line)) for when, line in lines)
        return [each for each in found if each[1]]

    def first(self, pattern, since, until=float("inf")):
        """When such a line was first written; nothing if it was not."""
        found = self.matches(pattern, since, until)
        return found[0][0] if found else None

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

    def wait_until(self, condition, what, pause=0.002, limit=DEADLINE):
        """Returns what the condition gives, or None if the job ended before."""
        end = time.monotonic() + limit
        while True:
            value = condition()
            if value:
                return value
            if not self.is_running():
                return None
            if time.monotonic() > end:
                raise Failed(f"waited {limit:.0f} s for {what}; the job hangs:\n{self.tail()}")
            time.sleep(pause)

    def life_after(self, before, workers):
        """The processes of the next start; None if there is none."""
        def new_ranks():
            ranks = self.ranks()
            return ranks if len(ranks) == workers and not set(ranks.values()) & set(before.values()) else None
        ranks = self.wait_until(new_ranks, "the processes", pause=0.01)
        return ranks and Life(ranks, time.monotonic())

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


class Life:
    """All processes from one start to the next."""

    def __init__(self, ranks, begun_at):
        self.ranks, self.begun_at = ranks, begun_at
        self._held = None

    def steps(self, job):
        """When each of its steps was reported; without output of earlier processes, which may come late."""
        begins = job.first(r"\btraining mlp on ", self.begun_at)
        if begins is None:
            return []
        return [(when, int(match.group(1))) for when, match in job.matches(r"\bstep (\d+)/", begins)]

    def first_step(self, job):
        steps = self.steps(job)
        return steps[0][1] if steps else None

    def last_step(self, job):
        steps = self.steps(job)
        return steps[-1][1] if steps else None

    def is_over(self):
        return not all(is_alive(pid) for pid in self.ranks.values())

    def phase(self, job):
        last = self.last_step(job)
        if last is None:
            # What it ends with is all that one writes which finds the run finished.
            return "shutdown" if job.first(r"\"weights_sha256\"", self.begun_at) else "joining" if self._held else "start-up"
        if last >= job.training.steps:  # the last checkpoint is part of it
            return "shutdown"
        return "checkpoint" if job.is_writing() else "step"

    def hold(self, rank):
        """Keeps one from coming, so that the others have to wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.ranks[rank], signal.SIGSTOP)
            self._held = self.ranks[rank]

    def let_go(self):
        if self._held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._held, signal.SIGCONT)
        self._held = None

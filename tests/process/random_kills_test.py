"""A training that is killed at random moments, again and again, ends as the one that nobody killed: bit for bit, with no
example lost and none seen twice.

BRIGADE_KILL_SEED repeats the moments of a run; the test prints its seed, and what each kill interrupted."""
import collections
import math
import os
import pathlib
import random
import tempfile
import time
import unittest

from kill_driver import EXAMPLES, Life, Page, write_data

SEED = int(os.environ.get("BRIGADE_KILL_SEED", random.SystemRandom().randrange(1 << 32)))
REPLICAS = (1, 2)
KILLS = 26  # of a training, at least
MOST_KILLS = 80
MOST_STEPS = 25  # of a life, before it is killed
QUOTAS = {"save": 6, "step": 6, "restore": 3}  # of a training, at least


class Aim:
    """When to kill: a random time after the beginning of a phase."""

    # The longest delay of each: about as long as the phase lasts, so that many of the kills interrupt it.
    LONGEST = {"anywhere": 0.02, "save": 0.05, "step": 0.004, "restore": 0.01}

    def __init__(self, draw, target):
        self.target = target
        self._steps = draw.randint(1, MOST_STEPS)
        self._until = 0.0
        self.delay = 10 ** draw.uniform(-4.5, math.log10(self.LONGEST[target]))
        if target == "anywhere":
            self._until = time.monotonic() + draw.uniform(0, 1.5)

    def reached(self, progress):
        made = progress.step - progress.begun if progress.begun >= 0 else 0
        if self.target == "anywhere":
            return time.monotonic() >= self._until or made >= MOST_STEPS
        if self.target == "restore":
            return progress.trainer == "restore" or made > 0
        return made >= self._steps and progress.phase.startswith(self.target)


class KilledTraining:
    """A training that is killed and restarted until it has seen every phase interrupted often enough."""

    def __init__(self, folder, page, replicas, draw):
        self._folder, self._page, self._replicas, self._draw = folder, page, replicas, draw
        self.killed_in = collections.Counter()
        self.results = []  # of each time that it came to its end
        self._start_over()

    def _start_over(self):
        self._saved = -1  # the step of the newest checkpoint
        self._name = f"killed-{self._replicas}-{len(self.results)}"

    def _life(self):
        return Life(self._folder / "data", self._folder / self._name, self._page, self._replicas)

    def _missing(self):
        """The phases whose quota is not met."""
        fallen = collections.Counter()
        for phase, count in self.killed_in.items():
            fallen[phase.partition(":")[0]] += count
        return [name for name, quota in QUOTAS.items() if fallen[name] < quota]

    def _next_target(self):
        targets = self._missing() or [*QUOTAS, "anywhere"]
        if self._saved <= 0:  # let it get a first checkpoint to restore
            targets = ["step", "anywhere"]
        return self._draw.choice(targets)

    def _check_begin(self, where):
        """A checkpoint that had its name is never lost, and none is broken."""
        if where.begun < 0:
            return
        assert where.begun >= self._saved, f"began with step {where.begun}, though {self._saved} was saved"
        assert where.broken == 0, f"{where.broken} broken checkpoints"

    def _kill_once(self):
        aim = Aim(self._draw, self._next_target())
        with self._life() as life:
            life.wait_until(aim.reached)
            time.sleep(aim.delay)  # the random moment
            where = life.kill()
        self._check_begin(where)
        if where.trainer == "end":  # does not count
            self._let_it_end()
            return
        self._saved = max(self._saved, where.published)
        self.killed_in[where.phase] += 1
        print(f"  kill {self.killed_in.total():2} aimed at {aim.target:8} interrupted {where.phase:16} "
              f"(in {where.trainer}, step {where.step}, saved {self._saved})", flush=True)

    def _let_it_end(self):
        with self._life() as life:
            self.results.append(life.result())
        self._check_begin(self._page.read())
        left = [each.name for each in (self._folder / self._name).iterdir() if each.name.startswith(".")]
        assert not left, f"left behind by kills: {left}"
        self._start_over()

    def run(self):
        """Kills it until every quota is met, then lets it end."""
        while self.killed_in.total() < KILLS or self._missing():
            assert self.killed_in.total() < MOST_KILLS, f"only {dict(self.killed_in)}; wanted {QUOTAS}"
            self._kill_once()
        self._let_it_end()


class RandomKills(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-kills-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder / "data")
        self.page = Page(self.folder / "page")
        self.addCleanup(self.page.close)

    def unbroken(self, replicas):
        """The run that nobody kills."""
        with Life(self.folder / "data", self.folder / f"unbroken-{replicas}", self.page, replicas) as life:
            return life.result()

    def test_leave_the_weights_of_the_run_never_killed(self):
        print(f"\nseed {SEED}: BRIGADE_KILL_SEED={SEED} draws these moments again")
        all_kills = collections.Counter()
        for replicas in REPLICAS:
            with self.subTest(replicas=replicas):
                print(f"{replicas} replica(s)", flush=True)
                victim = KilledTraining(self.folder, self.page, replicas, random.Random(f"{SEED}/{replicas}"))
                victim.run()
                all_kills += victim.killed_in
                wanted = self.unbroken(replicas)
                self.assertEqual((wanted["lost"], wanted["seen_twice"]), (0, 0))
                self.assertEqual(wanted["examples"], wanted["epochs"] * EXAMPLES)
                for result in victim.results:
                    self.assertEqual(result, wanted)
        print(f"{all_kills.total()} kills: " + ", ".join(f"{count} in {phase}" for phase, count in sorted(all_kills.items())))
        self.assertGreaterEqual(all_kills.total(), 50)


if __name__ == "__main__":
    unittest.main()

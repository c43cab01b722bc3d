"""The short form of `./dev soak --ps`: a few faults of one mode's training, BRIGADE_SOAK_MODE; with BRIGADE_SOAK_REPLICAS set,
of servers with replicas.

BRIGADE_PS_MEMBER names the program of the processes; BRIGADE_SOAK_SEED draws the faults of a printed seed again."""
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import ps_soak

MODE = os.environ["BRIGADE_SOAK_MODE"]
SEED = os.environ.get("BRIGADE_SOAK_SEED", str(random.SystemRandom().randrange(1 << 31)))
REPLICAS = ("--replicas",) if os.environ.get("BRIGADE_SOAK_REPLICAS") else ()
SLACK = 15.0  # seconds, for a busy machine


class Soak(unittest.TestCase):
    def test_no_acknowledged_update_is_lost_or_doubled(self):
        self.assertEqual(ps_soak.main(["--mode", MODE, "--kills", "2", "--stops", "1", "--seed", SEED, "--limit", str(5 + SLACK),
                                       "--member", os.environ["BRIGADE_PS_MEMBER"], *REPLICAS]), 0)


class Faults(unittest.TestCase):
    def drawn(self, seed, kills, others):
        return [(fault.kind, fault.victim, fault.delay) for fault in ps_soak.draw_faults(kills, others, random.Random(seed))]

    def test_a_seed_draws_the_same_faults_again(self):
        self.assertEqual(self.drawn(3, 100, 50), self.drawn(3, 100, 50))
        self.assertNotEqual(self.drawn(3, 100, 50), self.drawn(4, 100, 50))

    def test_are_of_every_kind_and_of_every_victim(self):
        drawn = self.drawn(1, 100, 50)
        self.assertEqual(sum(kind == "kill" for kind, _, _ in drawn), 100)
        tasks = {*ps_soak.SERVERS, *ps_soak.TRAINERS}
        for kind in ("kill", "pause", "stop", "cut"):
            self.assertEqual({victim for each, victim, _ in drawn if each == kind}, tasks)
        self.assertEqual({victim for kind, victim, _ in drawn if kind == "replace"}, set(ps_soak.TRAINERS))

    def test_replicas_are_hurt_too(self):
        drawn = ps_soak.draw_faults(100, 50, random.Random(1), has_replicas=True)
        for kind in ("kill", "pause", "stop", "cut"):
            victims = {fault.victim for fault in drawn if fault.kind == kind}
            self.assertEqual(victims, {*ps_soak.SERVERS, *ps_soak.REPLICAS, *ps_soak.TRAINERS})
        self.assertEqual({fault.server() for fault in drawn if fault.is_of_server()}, {0, 1})


if __name__ == "__main__":
    unittest.main()

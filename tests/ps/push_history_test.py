"""The checker of histories finds what it is for, and nothing else: histories that are made up, and then spoiled."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from push_history import Histories, Life, Reading, first, plus, powers, problems


class Job:
    """Servers that apply what they should, and the histories of their workers."""

    def __init__(self, servers=2):
        self.time = 0
        self.values = [{} for _ in range(servers)]
        self.steps = [0] * servers
        self.lives = {}
        self._shown = {}

    def now(self):
        self.time += 1
        return self.time

    def add(self, who, event, server, **fields):
        self.life(who).add({"event": event, "at": self.now(), "server": server, **fields})

    def life(self, who):
        if who not in self.lives:
            self.lives[who] = Life(f"{who[0]}-{who[1]}")
            for server in range(len(self.values)):
                self.add(who, "joined", server, rank=who[0], incarnation=who[1])
        return self.lives[who]

    def send(self, who, server, number, **token):
        self.add(who, "push", server, number=number, sums=[[*who, *powers([number])]], **token)

    def apply(self, who, server, number):
        values = self.values[server]
        values[who] = plus(values.get(who, (0, 0, 0)), powers([number]))

    def answer(self, who, server, number, verdict="apply", **acknowledged):
        self.add(who, "answer", server, number=number, verdict=verdict, **acknowledged)

    def push(self, who, server, number):
        """An asynchronous one."""
        self.send(who, server, number)
        self.apply(who, server, number)
        self.steps[server] += 1
        self.answer(who, server, number)

    def pull(self, who, server, **more):
        self.life(who)
        shown, values = self._shown.setdefault((who, server), {}), self.values[server]
        changes = [[*of, *sums] for of, sums in values.items() if shown.get(of) != sums]
        shown.update(values)
        self.add(who, "pulled", server, step=self.steps[server], changes=changes, **{"from": self.now(), **more})

    def decide(self, who, step, *contributions):
        self.add(who, "decision", 0, step=step, contributions=[list(each) for each in contributions])

    def problems(self, aggregate=0, deaths=(), final=True):
        end = [Reading({"from": self.now(), "at": self.now(), "server": server, "step": self.steps[server]}, dict(values))
               for server, values in enumerate(self.values)] if final else []
        return problems(self.lives.values(), aggregate, deaths, end)


A, B, SUCCESSOR = (0, 1), (1, 1), (1, 2)


def asynchronous():
    job = Job()
    for number in range(1, 6):
        for who in (A, B):
            for server in (0, 1):
                job.push(who, server, number)
            job.pull(who, 0)
            job.pull(who, 1)
    return job


class HistoryTest(unittest.TestCase):
    def assert_found(self, found, words):
        self.assertTrue(any(words in each for each in found), found)


class Asynchronous(HistoryTest):
    def test_a_history_in_which_all_is_well(self):
        self.assertEqual(asynchronous().problems(), [])

    def test_the_push_of_a_worker_that_died_may_be_there_or_not(self):
        for is_applied in (False, True):
            job = asynchronous()
            job.send(B, 0, 6)
            if is_applied:
                job.apply(B, 0, 6)
                job.steps[0] += 1
            job.push(SUCCESSOR, 0, 1)
            self.assertEqual(job.problems(), [])

    def test_a_push_that_is_sent_again(self):
        job = asynchronous()
        job.push(A, 0, 6)
        job.send(A, 0, 6)
        job.answer(A, 0, 6, "duplicate")
        self.assertEqual(job.problems(), [])
        job.answer(A, 0, 6, "apply")
        self.assert_found(job.problems(), "applied 2 times")

    def test_an_acknowledged_push_that_is_lost(self):
        job = asynchronous()
        job.values[1][A] = first(4)
        job.steps[1] -= 1
        self.assert_found(job.problems(), "server 1 has 4 pushes of (0, 1), who had 5 acknowledged")

    def test_a_push_that_was_answered_before_it_was_on_the_disk(self):
        job = asynchronous()
        job.send(A, 1, 6)
        job.answer(A, 1, 6, acknowledged=5)
        self.assertEqual(job.problems(), [])  # its server died, and then its worker
        job.add(A, "on_disk", 1, number=6)
        self.assert_found(job.problems(), "server 1 has 5 pushes of (0, 1), who had 6 acknowledged")

    def test_a_push_that_a_server_lost_is_sent_again(self):
        job = asynchronous()
        job.send(A, 1, 6)
        job.answer(A, 1, 6, acknowledged=5)
        killed = job.now()
        job.push(A, 1, 6)
        self.assertEqual(job.problems(deaths=[(killed, 1)]), [])
        self.assert_found(job.problems(deaths=[(killed, 0)]), "applied 2 times")

    def test_a_push_that_is_applied_twice(self):
        job = asynchronous()
        job.apply(A, 1, 5)
        job.steps[1] += 1
        self.assert_found(job.problems(), "these are not its first 6 pushes")

    def test_a_lost_push_that_another_one_doubled_makes_up_for(self):
        job = asynchronous()
        job.values[0][A] = powers([1, 2, 4, 4, 5])
        self.assert_found(job.problems(), "these are not its first 5 pushes")

    def test_a_push_that_nobody_has_sent(self):
        job = asynchronous()
        job.values[0][A] = first(6)
        job.steps[0] += 1
        self.assert_found(job.problems(), "5 sent")
        job = asynchronous()
        job.values[0][3, 1] = first(1)
        job.steps[0] += 1
        self.assert_found(job.problems(), "who never lived")

    def test_a_step_that_differs_from_the_pushes(self):
        job = asynchronous()
        job.steps[0] += 1
        self.assert_found(job.problems(), "10 pushes at step 11")

    def test_values_that_go_back(self):
        def history(deaths):
            job = asynchronous()
            job.send(B, 0, 6)
            job.apply(B, 0, 6)
            job.steps[0] += 1
            job.pull(A, 0)
            killed = job.now()
            job.values[0][B] = first(5)
            job.steps[0] -= 1
            job.pull(A, 0)
            return job.problems(deaths=[(killed, server) for server in deaths])

        self.assertEqual(history(deaths=[0]), [])  # it was never acknowledged
        for deaths in ([], [1]):
            self.assert_found(history(deaths), "server 0 went back from step 11 to 10")

    def test_a_read_that_misses_what_was_acknowledged_before_it(self):
        job = asynchronous()
        job.values[0][B] = first(3)
        job.steps[0] -= 2
        job.pull(SUCCESSOR, 0)
        job.values[0][B] = first(5)
        job.steps[0] += 2
        self.assert_found(job.problems(), "1-2: server 0 has 3 pushes of (1, 1), who had 5 acknowledged")

    def test_gaps_and_other_gradients(self):
        job = asynchronous()
        job.send(A, 0, 7)
        self.assert_found(job.problems(), "before the one before it was answered")
        job = asynchronous()
        job.add(A, "push", 0, number=6, sums=[[0, 1, 1, 7, 49]])
        self.assert_found(job.problems(), "push (0, 6) adds")
        job = asynchronous()
        job.send(A, 0, 6)
        job.answer(A, 0, 6, "gap")
        self.assert_found(job.problems(), "answered 'gap'")

    def test_two_processes_of_one_incarnation(self):
        job = asynchronous()
        twin = Life("twin")
        twin.add({"event": "joined", "at": 1, "server": 0, "rank": 0, "incarnation": 1})
        job.lives["twin"] = twin
        self.assert_found(job.problems(), "2 processes were incarnation 1 of rank 0")

    def test_an_end_that_nobody_has_read(self):
        self.assert_found(asynchronous().problems(final=False), "nobody has read the values of server 1")


def synchronous(steps=4):
    """Of three workers, 1 is late in each step; both servers get all gradients."""
    job, late = Job(), (2, 1)
    for step in range(steps):
        for server in (0, 1):
            for who in (A, B, late):
                job.send(who, server, step + 1, token=[step, 0])
                job.answer(who, server, step + 1)
            for who in (A, B):
                job.apply(who, server, step + 1)
            job.steps[server] += 1
        for who in (A, B, late):
            job.decide(who, step, (0, 0), (1, 0))
            for server in (0, 1):
                job.pull(who, server, decided=step)
    return job


class Synchronous(HistoryTest):
    def test_a_history_in_which_all_is_well(self):
        self.assertEqual(synchronous().problems(aggregate=2), [])

    def test_a_stale_gradient_that_is_added(self):
        job = synchronous()
        job.values[1][B], job.values[1][2, 1] = powers([1, 2, 3]), powers([4])
        self.assert_found(job.problems(aggregate=2), "server 1 has 3 gradients of rank 1 at step 4, and the decisions name 4")

    def test_the_gradient_of_another_step(self):
        job = synchronous()
        job.values[1][B] = powers([1, 2, 3, 3])
        self.assert_found(job.problems(aggregate=2), "the end: server 1 has (4, 9, 23) of (1, 1), and the decisions make (4, 10, 30)")

    def test_a_decision_that_is_applied_twice(self):
        job = synchronous()
        for who in (A, B):
            job.apply(who, 0, 4)
        self.assert_found(job.problems(aggregate=2), "server 0 has 10 gradients at step 4, not 8")

    def test_decisions_that_differ(self):
        job = synchronous()
        job.decide(A, 3, (0, 0), (2, 0))
        self.assert_found(job.problems(aggregate=2), "step 3 was decided with")

    def test_a_decision_that_nobody_heard_of_or_that_is_too_small(self):
        job = synchronous()
        for life in job.lives.values():
            life.decisions = [each for each in life.decisions if each[1] != 2]
        self.assert_found(job.problems(aggregate=2), "nobody was told the decision of step 2")
        job = synchronous()
        job.decide(A, 4, (0, 0))
        self.assert_found(job.problems(aggregate=2), "step 4 was decided with [(0, 0)]")

    def test_a_server_that_forgets_a_decision(self):
        job = synchronous()
        job.values[0] = {who: powers([1, 2, 3]) for who in (A, B)}
        job.steps[0] = 3
        found = job.problems(aggregate=2, deaths=[(job.now(), 0)])
        self.assert_found(found, "server 0 is at step 3 after 4 steps were decided")
        job = synchronous()
        job.steps[1] = 3
        job.values[1] = {who: powers([1, 2, 3]) for who in (A, B)}
        job.pull(A, 1, decided=3)
        self.assert_found(job.problems(aggregate=2), "server 1 knew decision 3 and is at step 3")

    def succeeded(self, server_0, server_1):
        """A worker that died after it had given its gradient, and the one that its successor gave; the servers used these."""
        job = synchronous()
        for server in (0, 1):
            job.send(A, server, 5, token=[4, 0])
            job.answer(A, server, 5)
            job.send(B, server, 5, token=[4, 0])
            job.send(SUCCESSOR, server, 1, token=[4, 0])
            job.answer(SUCCESSOR, server, 1)
        for server, who in enumerate((server_0, server_1)):
            job.apply(A, server, 5)
            job.apply(who, server, 5 if who == B else 1)
            job.steps[server] += 1
        job.decide(A, 4, (0, 0), (1, 0))
        return job.problems(aggregate=2)

    def test_the_gradient_of_a_worker_or_of_its_successor_but_not_of_both(self):
        self.assertEqual(self.succeeded(SUCCESSOR, SUCCESSOR), [])
        self.assertEqual(self.succeeded(B, B), [])
        self.assert_found(self.succeeded(SUCCESSOR, B), "step 4 has gradient")

    def test_a_gradient_that_a_server_never_got(self):
        job = synchronous()
        del job.life(B).tokens[1, 4]
        self.assert_found(job.problems(aggregate=2), "names a gradient of rank 1 that server 1 was never sent")


class Files(unittest.TestCase):
    def test_are_read_as_they_grow_without_a_torn_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "0-17"
            line = json.dumps({"event": "joined", "at": 5, "server": 0, "rank": 0, "incarnation": 1}) + "\n"
            path.write_text(line[:10])
            histories = Histories(folder)
            self.assertEqual(list(histories.poll()), [])
            path.write_text(line + line[:7])
            self.assertEqual([event["at"] for _, event in histories.poll()], [5])
            self.assertEqual(list(histories.poll()), [])
            self.assertEqual(histories.lives[path].rank, 0)


if __name__ == "__main__":
    unittest.main()

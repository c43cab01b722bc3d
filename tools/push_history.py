"""Histories of training with parameter servers, and what must be true of them.

Each life of a worker writes what it asked of the servers and what it was told (tests/ps/push_history.h): a file of JSON objects.
Their values count: push n of an incarnation adds 1, n and n^2 to the three sums of that incarnation on the server, so that the
sums say which of its pushes were applied. `problems` compares every value that was read with the pushes that were sent and
acknowledged: no acknowledged push is lost, none is applied twice, no value or step goes back while its server lives, and a
synchronous step is exactly the gradients that its decision names."""
import bisect
import collections
import itertools
import json
import pathlib

NOTHING = (0, 0, 0)


def powers(numbers):
    """What pushes with these numbers add."""
    numbers = list(numbers)
    return len(numbers), sum(numbers), sum(n * n for n in numbers)


def first(count):
    """What the first `count` pushes of an incarnation add."""
    return count, count * (count + 1) // 2, count * (count + 1) * (2 * count + 1) // 6


def plus(a, b):
    return tuple(x + y for x, y in zip(a, b))


class Reading:
    """The values of a server, as a worker has pulled them: between `begin` and `end`."""

    def __init__(self, event, sums):
        self.begin, self.end, self.server, self.step = event["from"], event["at"], event["server"], event["step"]
        self.decided = event.get("decided", -1)  # the decision that the server was told of with the call
        self.sums = sums  # {(rank, incarnation): (count, sum, squares)}

    def count(self, rank=None):
        return sum(sums[0] for (of, _), sums in self.sums.items() if rank is None or of == rank)


class Life:
    """What one process has done as a worker."""

    def __init__(self, name=""):
        self.name = name
        self.rank = self.incarnation = None
        self.sent = {}  # (server, number): when it was sent first
        self.last_sent = {}  # and last
        self.tokens = {}  # (server, number): [step, index]
        self.sums = {}  # (server, number): what it adds
        self.answers = collections.defaultdict(list)  # (server, number): [(when, verdict), ...]
        self.on_disk = collections.defaultdict(list)  # server: [(when, the last push that it had on its disk), ...]
        self.readings = []
        self.decisions = []  # (when, step, contributions)
        self.problems = []
        self._values = collections.defaultdict(dict)

    def add(self, event):
        getattr(self, "_" + event["event"])(event)

    def _joined(self, event):
        me = event["rank"], event["incarnation"]
        if self.rank is not None and me != (self.rank, self.incarnation):
            self.problems.append(f"{self.name}: joined as {me}, and before as {(self.rank, self.incarnation)}")
        self.rank, self.incarnation = me

    def _push(self, event):
        push = event["server"], event["number"]
        if push in self.sent:
            if (event["sums"], event.get("token")) != (self.sums[push], self.tokens.get(push)):
                self.problems.append(f"{self.name}: push {push} was sent again with other gradients")
        elif push[1] > 1 and not self.answers.get((push[0], push[1] - 1)):
            self.problems.append(f"{self.name}: push {push} was sent before the one before it was answered")
        self.sent.setdefault(push, event["at"])
        self.last_sent[push] = event["at"]
        self.sums[push] = event["sums"]
        if "token" in event:
            self.tokens[push] = event["token"]
        wanted = [[self.rank, self.incarnation, *powers([push[1]])]]
        if event["sums"] != wanted:
            self.problems.append(f"{self.name}: push {push} adds {event['sums']}, not {wanted}")

    def _answer(self, event):
        self.answers[event["server"], event["number"]].append((event["at"], event["verdict"]))
        self.on_disk[event["server"]].append((event["at"], event.get("acknowledged", event["number"])))

    def _on_disk(self, event):
        self.on_disk[event["server"]].append((event["at"], event["number"]))

    def _pulled(self, event):
        values = self._values[event["server"]]
        for rank, incarnation, *sums in event["changes"]:
            values[rank, incarnation] = tuple(sums)
        self.readings.append(Reading(event, dict(values)))

    def _decision(self, event):
        self.decisions.append((event["at"], event["step"], [tuple(each) for each in event["contributions"]]))

    def acknowledged(self, server):
        """When its pushes to this server were acknowledged first, in their order."""
        times = []
        for when, number in sorted(self.on_disk[server]):
            times += [when] * (number - len(times))
        return times

    def began(self, server):
        return [when for push, when in sorted(self.sent.items()) if push[0] == server]


class Histories:
    """The lives of a folder's files, read as they grow."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._read = {}  # path: bytes
        self.lives = {}  # path: Life

    def poll(self):
        """Reads what is new; yields (life, event). A line that a killed process has not finished is nothing."""
        for path in sorted(self._folder.glob("*")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[:text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            life = self.lives.setdefault(path, Life(path.name))
            for line in whole.splitlines():
                event = json.loads(line)
                life.add(event)
                yield life, event


def problems(lives, aggregate=0, deaths=(), final=()):
    """What is wrong with these lives; nothing is the empty list. `aggregate`: gradients of a synchronous step, 0 for other
    modes. `deaths`: (when, server) of servers that were killed. `final`: readings of all servers when everything had ended."""
    lives = [life for life in lives if life.rank is not None]
    check = Synchronous(lives, deaths, final, aggregate) if aggregate else Asynchronous(lives, deaths, final)
    return check.problems()


class Check:
    def __init__(self, lives, deaths, final):
        self.lives, self.deaths, self.final = lives, deaths, list(final)
        self.servers = sorted({server for life in lives for server, _ in life.sent} | {each.server for each in self.final})
        self.by_id = {(life.rank, life.incarnation): life for life in lives if life.sent or life.readings}
        self.sent = {(server, who): life.began(server) for who, life in self.by_id.items() for server in self.servers}
        self.acknowledged = {(server, who): life.acknowledged(server) for who, life in self.by_id.items() for server in self.servers}
        self.found = []

    def problems(self):
        for life in self.lives:
            self.found += life.problems
            self._check_verdicts(life)
            self._check_order(life)
        self._check_identities()
        self._check_final()
        for life in self.lives:
            for reading in life.readings:
                self.check_reading(life.name, reading)
        for reading in self.final:
            self.check_reading("the end", reading)
        self.check_all()
        return self.found

    def _check_verdicts(self, life):
        for push, answers in life.answers.items():
            verdicts = collections.Counter(verdict for _, verdict in answers)
            if verdicts["apply"] > 1 and not self._was_lost(life, push, answers):
                self.found.append(f"{life.name}: push {push} was applied {verdicts['apply']} times, it was told")
            for verdict in set(verdicts) - {"apply", "duplicate"}:
                self.found.append(f"{life.name}: push {push} was answered '{verdict}'")
            if push not in life.sent:
                self.found.append(f"{life.name}: push {push} was answered, and never sent")

    def _was_lost(self, life, push, answers):
        """Whether the server died between two answers that it has applied a push: it may have lost one that it had not
        acknowledged."""
        applied = sorted(when for when, verdict in answers if verdict == "apply")
        return all(any(server == push[0] and life.sent[push] < death < later for death, server in self.deaths)
                   for later in applied[1:])

    def _check_identities(self):
        seen = collections.Counter((life.rank, life.incarnation) for life in self.lives)
        self.found += [f"{count} processes were incarnation {incarnation} of rank {rank}"
                       for (rank, incarnation), count in seen.items() if count > 1]

    def _check_order(self, life):
        """Values and steps do not go back, as one worker sees a server, while that lives. A server that was killed may have
        shown updates that it had not acknowledged."""
        last = {}
        for now in life.readings:
            before = last.get(now.server)
            last[now.server] = now
            if before is None or any(server == now.server and before.begin < when < now.end for when, server in self.deaths):
                continue
            if now.step < before.step:
                self.found.append(f"{life.name}: server {now.server} went back from step {before.step} to {now.step}")
            for who, sums in before.sums.items():
                if now.sums.get(who, NOTHING) < sums:
                    self.found.append(f"{life.name}: server {now.server} went back from {sums} to {now.sums.get(who)} of {who}")

    def _check_final(self):
        missing = set(self.servers) - {each.server for each in self.final}
        self.found += [f"nobody has read the values of server {server} at the end" for server in sorted(missing)]

    def is_known(self, where, reading):
        unknown = sorted(set(reading.sums) - set(self.by_id))
        for who in unknown:
            if reading.sums[who] != NOTHING:
                self.found.append(f"{where}: server {reading.server} has {reading.sums[who]} of {who}, who never lived")
        return not unknown


class Asynchronous(Check):
    """Each push is an update of its own, in the order of its worker."""

    def check_reading(self, where, reading):
        self.is_known(where, reading)
        for who in self.by_id:
            sums = reading.sums.get(who, NOTHING)
            count = sums[0]
            if sums != first(count):
                self.found.append(f"{where}: server {reading.server} has {sums} of {who}: these are not its first {count} pushes")
            least = bisect.bisect_right(self.acknowledged[reading.server, who], reading.begin)
            most = bisect.bisect_left(self.sent[reading.server, who], reading.end)
            if not least <= count <= most:
                self.found.append(f"{where}: server {reading.server} has {count} pushes of {who}, who had {least} acknowledged "
                                  f"and {most} sent")
        if reading.count() != reading.step:
            self.found.append(f"{where}: server {reading.server} has {reading.count()} pushes at step {reading.step}")

    def check_all(self):
        pass


class Synchronous(Check):
    """Each decision adds the gradients that it names."""

    def __init__(self, lives, deaths, final, aggregate):
        super().__init__(lives, deaths, final)
        self.aggregate = aggregate
        self.decisions = {}  # step: contributions
        self.known = collections.defaultdict(list)  # step: when somebody knew
        for life in lives:
            for when, step, contributions in life.decisions:
                self.known[step].append(when)
                if self.decisions.setdefault(step, contributions) != contributions:
                    self.found.append(f"step {step} was decided with {self.decisions[step]} and with {contributions}")
        self.offers = collections.defaultdict(list)  # (server, rank, step, index): [(incarnation, number), ...]
        for life in lives:
            for (server, number), (step, index) in life.tokens.items():
                self.offers[server, life.rank, step, index].append((life.incarnation, number))
        ranks = {rank for contributions in self.decisions.values() for rank, _ in contributions}
        steps = max(self.decisions, default=-1) + 1
        self._until = {rank: list(itertools.accumulate((sum(who == rank for who, _ in self.decisions.get(step, ()))
                                                        for step in range(steps)), initial=0)) for rank in ranks}
        # [step]: when the first of it and of later decisions was known
        self._first_known = list(itertools.accumulate((min(self.known[step], default=1 << 63) for step in reversed(range(steps))), min))
        self._first_known.reverse()

    def check_reading(self, where, reading):
        self.is_known(where, reading)
        server, step = reading.server, reading.step
        if reading.count() != step * self.aggregate:
            self.found.append(f"{where}: server {server} has {reading.count()} gradients at step {step}, not {step * self.aggregate}")
        for rank, until in self._until.items():
            if step < len(until) and reading.count(rank) != until[step]:
                self.found.append(f"{where}: server {server} has {reading.count(rank)} gradients of rank {rank} at step {step}, and "
                                  f"the decisions name {until[step]}")
        if reading.decided >= step:
            self.found.append(f"{where}: server {server} knew decision {reading.decided} and is at step {step}")
        decided = bisect.bisect_left(self._first_known, reading.begin)
        if server == 0 and decided > step:
            self.found.append(f"{where}: server 0 is at step {step} after {decided} steps were decided")

    def check_all(self):
        for step in range(max(self.decisions, default=-1) + 1):
            contributions = self.decisions.get(step)
            if contributions is None:
                self.found.append(f"nobody was told the decision of step {step}")
            elif len(contributions) != self.aggregate or sorted(set(contributions)) != contributions:
                self.found.append(f"step {step} was decided with {contributions}")
        steps = {reading.server: reading.step for reading in self.final}
        if len(set(steps.values())) > 1:
            self.found.append(f"the servers ended at different steps: {steps}")
        used = {}
        for reading in self.final:
            chosen = self._chosen(reading)
            for key, offer in (chosen or {}).items():
                if used.setdefault(key, offer) != offer:
                    self.found.append(f"step {key[0]} has gradient {offer} of rank {key[1]} on one server, {used[key]} on another")

    def _chosen(self, reading):
        """Which gradient of each contribution the final values contain. A worker that was killed and its successor may both
        have given one."""
        sums, open_ones, chosen = {}, collections.defaultdict(list), {}
        for step in range(reading.step):
            for rank, index in self.decisions.get(step, ()):
                offers = self.offers.get((reading.server, rank, step, index), [])
                if not offers:
                    self.found.append(f"step {step} names a gradient of rank {rank} that server {reading.server} was never sent")
                elif len(offers) > 1:
                    open_ones[rank].append(((step, rank, index), offers))
                else:
                    self._take((step, rank, index), offers[0], sums, chosen)
        for rank, groups in open_ones.items():
            lives = {(rank, incarnation) for _, offers in groups for incarnation, _ in offers}
            for choice in itertools.product(*(offers for _, offers in groups)):
                trial, trial_chosen = dict(sums), {}
                for (key, _), offer in zip(groups, choice):
                    self._take(key, offer, trial, trial_chosen)
                if all(trial.get(who, NOTHING) == reading.sums.get(who, NOTHING) for who in lives):
                    sums = trial
                    chosen.update(trial_chosen)
                    break
        for who in sorted(set(sums) | set(reading.sums)):
            if sums.get(who, NOTHING) != reading.sums.get(who, NOTHING):
                self.found.append(f"the end: server {reading.server} has {reading.sums.get(who, NOTHING)} of {who}, and the decisions "
                                  f"make {sums.get(who, NOTHING)}")
        return chosen

    @staticmethod
    def _take(key, offer, sums, chosen):
        incarnation, number = offer
        who = key[1], incarnation
        sums[who] = plus(sums.get(who, NOTHING), powers([number]))
        chosen[key] = offer

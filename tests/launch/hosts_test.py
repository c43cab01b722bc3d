"""Several launchers, one a host, that start one job together; the hosts are processes of this machine."""
import os
import pathlib
import signal
import time
import unittest

from launcher import LIMIT, SLOWNESS, LaunchTest, free_port, shell, state

MEMBER = os.environ["BRIGADE_LAUNCH_MEMBER"]
PEER_TIMEOUT = 2.0 * SLOWNESS
SLACK = 8.0 * SLOWNESS  # for a busy machine
KEY = "5" * 64
READY = "echo ready $$; while :; do sleep 0.01; done"
SAVES = "trap 'echo saved; exit 75' TERM; " + READY


class HostsTest(LaunchTest):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{free_port()}"

    def start_host(self, index, program, *flags, hosts=2, peer_timeout=PEER_TIMEOUT, **environment):
        return self.start(["--nnodes", hosts, "--node-rank", index, "--rendezvous", self.address, "--json",
                           "--peer-timeout", peer_timeout, *flags], program, **environment)

    def start_hosts(self, counts, program, *flags, **environment):
        """A launcher for each count of processes."""
        return [self.start_host(index, program, "--nproc", count, *flags, hosts=len(counts), **environment)
                for index, count in enumerate(counts)]

    def assert_ends(self, jobs, code):
        self.assertEqual([job.end() for job in jobs], [code] * len(jobs), [job.errors_text() for job in jobs])

    def ready(self, jobs, counts):
        """The programs of each job, when all are ready."""
        return self.numbers(jobs, counts, "ready")

    def numbers(self, jobs, counts, word):
        """What each process of each job prints after this word at the end of a line."""
        found = [[] for _ in jobs]
        for numbers, job, count in zip(found, jobs, counts):
            while len(numbers) < count:
                words = job.line("[").split()
                if words[1] == word:
                    numbers.append(int(words[-1]))
        return found


class Start(HostsTest):
    def test_ranks_go_from_host_to_host(self):
        jobs = self.start_hosts([1, 2, 1], shell("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK "
                                                 "{rank} $MASTER_ADDR:$MASTER_PORT $BRIGADE_RENDEZVOUS"))
        self.assert_ends(jobs, 0)
        found = [sorted(job.output[:-1]) for job in jobs]
        rendezvous = found[0][0].split(maxsplit=7)[-1]
        self.assertEqual(found, [[f"[0] 0 4 0 1 0 0 {rendezvous}"], [f"[1] 1 4 0 2 1 1 {rendezvous}", f"[2] 2 4 1 2 1 2 {rendezvous}"],
                                 [f"[3] 3 4 0 1 2 3 {rendezvous}"]])
        self.assertEqual([job.result()["processes"] for job in jobs], [4, 4, 4])

    def test_the_order_of_starting_does_not_matter(self):
        late = self.start_host(1, ["/bin/true"])
        time.sleep(1)  # gives it time to find nobody
        begin = time.monotonic()
        self.assert_ends([self.start_host(0, ["/bin/true"]), late], 0)
        took = time.monotonic() - begin
        print(f"host 0 came last: all had ended after {took:.2f} s", flush=True)
        self.assertLess(took, 4 * SLOWNESS)

    def test_processes_of_all_hosts_join(self):
        for environment in ({}, {"BRIGADE_CLUSTER_KEY": KEY}):
            # "stay": who sees another end as its own SIGTERM comes could end with 1.
            jobs = self.start_hosts([2, 1], [MEMBER, "stay"], **environment)
            self.numbers(jobs, (2, 1), "joined")
            jobs[1].send(signal.SIGTERM)
            self.assert_ends(jobs, 75)

    def test_a_host_that_does_not_come_is_named(self):
        job = self.start_host(0, ["/bin/true"], "--start-timeout", 1, hosts=3)
        other = self.start_host(2, ["/bin/true"], "--start-timeout", 1000, hosts=3)
        self.assert_ends([job, other], 1)
        for each in (job, other):
            self.assertIn("1 of 3 processes did not join within 1 s: host 1.", each.errors[-1])

    def test_sigterm_while_waiting_for_the_others_is_75(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            job = self.start_host(0, ["/bin/true"])
            job.line("[info] Waiting for")
            job.send(number)
            self.assertEqual(job.end(), code)
            self.assertIn(f"{signal.Signals(number).name} while this launcher waited", job.errors_text())

    def test_disagreeing_launchers_name_the_difference(self):
        jobs = [self.start_host(index, ["/bin/true"], "--max-restarts", index) for index in range(2)]
        self.assert_ends(jobs, 2)
        self.assertIn("has --max-restarts 1 and this one 0", jobs[0].errors_text())
        self.assertIn("has --max-restarts 0 and this one 1", jobs[1].errors_text())

    def test_two_launchers_of_one_number(self):
        job = self.start_host(0, shell(READY), "--nproc", 1)
        twins = [self.start_host(1, shell(READY)) for _ in range(2)]
        job.line("[0] ready")
        end = time.monotonic() + LIMIT
        while state(twins[0].pid) and state(twins[1].pid):
            self.assertLess(time.monotonic(), end, "both twins run")
            time.sleep(0.01)
        refused = twins[0] if state(twins[0].pid) is None else twins[1]
        self.assertEqual(refused.end(), 2)
        self.assertIn("Two processes claim rank 1", refused.errors_text())

    def test_a_program_that_one_host_does_not_have(self):
        job = self.start_host(0, shell(SAVES))
        other = self.start_host(1, ["/nowhere/program"])
        self.assertEqual((job.end(), other.end()), (1, 2))
        self.assertIn("The launcher of host 1 (", job.errors_text())
        self.assertIn("/nowhere/program", job.errors_text())
        self.assert_nothing_is_left()

    def test_flags_that_do_not_fit(self):
        two = ["--nnodes", 2, "--rendezvous", self.address]
        for flags, saying in ((["--nnodes", 2], "--node-rank"), (["--nnodes", 2, "--node-rank", 0], "--rendezvous"),
                              ([*two, "--node-rank", 2], "hosts 0 to 1"), ([*two, "--node-rank", 0, "--elastic", "1:2"], "one host"),
                              ([*two, "--node-rank", 0, "--independent"], "no other host"),
                              (["--nnodes", 2, "--node-rank", 1, "--rendezvous", "10.0.0.1:2222"], "Without a cluster key")):
            job = self.run_job(flags, ["/bin/true"], code=2)
            self.assertIn(saying, job.errors_text())


class Endings(HostsTest):
    def test_a_failure_is_reported_where_it_was_and_summed_up_elsewhere(self):
        jobs = self.start_hosts([1, 2], shell("[ $RANK = 2 ] && { echo last words; exit 7; }; exec sleep 1000"))
        self.assert_ends(jobs, 7)
        self.assertRegex(jobs[0].errors_text(), r"Rank 2 on host 1 \(.*\) failed first: exit code 7, ")
        self.assertIn("Rank 2 failed first: exit code 7, ", jobs[1].errors_text())
        self.assertIn("\n    last words", jobs[1].errors_text())
        self.assertIn("rank 1 was running", jobs[1].errors_text())
        for job in jobs:
            self.assertEqual([failure["rank"] for failure in job.result()["failures"]], [2])
        self.assert_nothing_is_left()

    def test_all_begin_again_generation_by_generation(self):
        for rank in range(2):
            (self.folder / f"count-{rank}").touch()
        all_have_said = (f"cd {self.folder}; echo x >> count-$RANK; n=$(wc -l < count-$RANK); "
                         "while [ $(wc -l < count-$((1-RANK))) -lt $n ]; do sleep 0.01; done")
        jobs = self.start_hosts([1, 1], shell(f"echo generation $BRIGADE_GENERATION; {all_have_said}; "
                                              "[ $n -ge 3 ] && exit 0; [ $n = 2 -a $RANK = 1 ] && exit 5; "
                                              "[ $n = 1 -a $RANK = 0 ] && exit 4; exec sleep 1000"), "--max-restarts", 3)
        self.assert_ends(jobs, 0)
        for rank, job in enumerate(jobs):
            self.assertEqual(job.output[:-1], [f"[{rank}] generation {i}" for i in range(3)])
            self.assertEqual([failure["rank"] for failure in job.result()["failures"]], [0, 1])
            self.assertEqual(job.result()["restarts"], 2)

    def test_a_member_that_stands_still_is_killed_where_it_is(self):
        jobs = self.start_hosts([1, 1], [MEMBER])
        pids = self.numbers(jobs, (1, 1), "joined")
        os.kill(pids[1][0], signal.SIGSTOP)
        self.assert_ends(jobs, 137)
        self.assertIn("Rank 1 failed first: it has not been heard from for", jobs[1].errors_text())
        self.assert_nothing_is_left()

    def test_sigterm_to_one_host_stops_all(self):
        for told in range(2):
            jobs = self.start_hosts([1, 1], shell(SAVES))
            self.ready(jobs, (1, 1))
            jobs[told].send(signal.SIGTERM)
            self.assert_ends(jobs, 75)
            for rank, job in enumerate(jobs):
                self.assertIn(f"[{rank}] saved", job.output)

    def test_who_sees_another_end_before_the_stop_reaches_it_has_not_failed(self):
        jobs = self.start_hosts([1, 1], [MEMBER], peer_timeout=LIMIT)
        (_, (program,)) = self.numbers(jobs, (1, 1), "joined")
        shim = int(pathlib.Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1])
        jobs[1].send(signal.SIGSTOP)  # so that its launcher does not pass on the stop
        self.wait_for_state(jobs[1].pid, "T")
        jobs[0].send(signal.SIGTERM)
        self.wait_for_state(shim, (None,))
        jobs[1].send(signal.SIGCONT)
        self.assert_ends(jobs, 75)
        self.assertEqual(jobs[0].result()["failures"], [])
        self.assert_nothing_is_left()

    def test_who_fails_although_the_stop_has_reached_it_is_named(self):
        jobs = self.start_hosts([1, 1], shell(f"[ $RANK = 0 ] && {{ {SAVES}; }}; trap 'echo disk full; exit 1' TERM; {READY}"))
        self.ready(jobs, (1, 1))
        jobs[0].send(signal.SIGTERM)
        self.assert_ends(jobs, 1)
        self.assertIn("disk full", jobs[1].errors_text())

    def test_sigterm_to_every_host_is_no_second_one(self):
        jobs = self.start_hosts([1, 1], shell("trap 'sleep 1; echo saved; exit 75' TERM; " + READY))
        self.ready(jobs, (1, 1))
        for job in jobs:
            job.send(signal.SIGTERM)
        self.assert_ends(jobs, 75)
        for rank, job in enumerate(jobs):
            self.assertIn(f"[{rank}] saved", job.output)

    def test_a_second_sigint_kills_on_all_hosts(self):
        jobs = self.start_hosts([1, 1], shell("trap 'echo no' INT TERM; " + READY), "--grace", 1000)
        self.ready(jobs, (1, 1))
        jobs[1].send(signal.SIGINT)
        for rank, job in enumerate(jobs):
            job.line(f"[{rank}] no")
        jobs[1].send(signal.SIGINT)
        self.assert_ends(jobs, 130)
        self.assert_nothing_is_left()


class LostLaunchers(HostsTest):
    def hurt(self, victim, number, within):
        """What the others do when this launcher is hurt; returns all jobs."""
        counts = (1, 2, 1)
        jobs = self.start_hosts(counts, shell(SAVES))
        self.ready(jobs, counts)
        begin = time.monotonic()
        jobs[victim].send(number)
        others = [job for index, job in enumerate(jobs) if index != victim]
        self.assert_ends(others, 137)
        took = time.monotonic() - begin
        print(f"{signal.Signals(number).name} of launcher {victim}: the others had ended after {took:.2f} s", flush=True)
        self.assertLess(took, within + SLACK)
        for job in others:
            self.assertRegex(job.errors_text(), rf"The launcher of host {victim} \(.*, pid {jobs[victim].pid}\) was lost: ")
            self.assertTrue([line for line in job.output if line.endswith("saved")], job.output)
        return jobs

    def test_one_that_is_killed(self):
        self.hurt(1, signal.SIGKILL, 0)
        self.assert_nothing_is_left()

    def test_the_one_of_host_0_is_killed(self):
        self.hurt(0, signal.SIGKILL, 0)
        self.assert_nothing_is_left()

    def test_one_that_is_stopped(self):
        jobs = self.hurt(1, signal.SIGSTOP, PEER_TIMEOUT)
        jobs[1].send(signal.SIGCONT)
        self.assertEqual(jobs[1].end(), 137)
        self.assertIn("was lost", jobs[1].errors_text())
        self.assert_nothing_is_left()

    def test_the_one_of_host_0_is_stopped(self):
        jobs = self.hurt(0, signal.SIGSTOP, PEER_TIMEOUT)
        jobs[0].send(signal.SIGCONT)
        self.assertEqual(jobs[0].end(), 137)
        self.assert_nothing_is_left()


class LaunchersThatComeBack(HostsTest):
    """With restarts left, a launcher that is lost has its place kept."""

    def begin(self):
        self.flags = ("--max-restarts", 2, "--start-timeout", LIMIT)
        self.jobs = self.start_hosts((1, 1, 1), shell("trap 'exit 75' TERM; echo generation $BRIGADE_GENERATION; "
                                                      "while [ ! -e {folder}/enough ]; do sleep 0.01; done".format(
                                                          folder=self.folder)), *self.flags)
        self.running(self.jobs, 0)

    def running(self, jobs, generation):
        for job in jobs:
            while job.line("[").split()[1:] != ["generation", str(generation)]:
                pass

    def finish(self, jobs, restarts):
        (self.folder / "enough").touch()
        self.assert_ends(jobs, 0)
        self.assertEqual([job.result()["restarts"] for job in jobs], [restarts] * len(jobs))
        self.assert_nothing_is_left()

    def test_another_in_the_place_of_one_that_was_killed(self):
        self.begin()
        self.jobs[1].send(signal.SIGKILL)
        begin = time.monotonic()
        self.jobs[1] = self.start_host(1, shell("echo generation $BRIGADE_GENERATION"), *self.flags, hosts=3)
        self.running(self.jobs, 1)
        print(f"killed launcher: all ran again after {time.monotonic() - begin:.2f} s", flush=True)
        self.finish(self.jobs, 1)
        failure = self.jobs[0].result()["failures"][0]
        self.assertIsNone(failure["rank"])
        self.assertIn("The launcher of host 1 (", failure["reason"])

    def test_one_that_stood_still(self):
        self.begin()
        self.jobs[2].send(signal.SIGSTOP)
        for job in self.jobs[:2]:
            job.line("[warning] This launcher waits")
        self.jobs[2].send(signal.SIGCONT)
        self.running(self.jobs, 1)
        self.finish(self.jobs, 1)

    def test_one_that_does_not_come_back_is_named(self):
        jobs = self.start_hosts((1, 1), shell(SAVES), "--max-restarts", 1, "--start-timeout", 2 * SLOWNESS)
        self.ready(jobs, (1, 1))
        jobs[1].send(signal.SIGKILL)
        self.assertEqual(jobs[0].end(), 1)
        self.assertIn("host 1", jobs[0].errors[-1])
        self.assert_nothing_is_left()

    def test_sigterm_while_it_is_waited_for(self):
        self.begin()
        self.jobs[2].send(signal.SIGKILL)
        self.jobs[0].line("[warning] This launcher waits")
        self.jobs[0].send(signal.SIGTERM)
        self.assertEqual(self.jobs[0].end(), 75)
        self.jobs[1].send(signal.SIGTERM)
        self.jobs[1].end()
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()

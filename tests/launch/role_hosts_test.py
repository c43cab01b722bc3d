"""Parameter servers, workers and an evaluator on several hosts, each with a launcher; the hosts are processes of this machine."""
import json
import signal
import unittest

from hosts_test import HostsTest
from launcher import LIMIT, python
from roles_test import PRELUDE

# On host 0 worker:1 and ps:0, on host 1 the chief.
TWO = ["--ps", 1, "--workers", 2]


class RolesOnHosts(HostsTest):
    def program(self, script):
        return python(PRELUDE + script, str(self.folder))

    def start_roles(self, flags, script):
        """A launcher for each of two hosts."""
        return [self.start_host(index, self.program(script), *flags) for index in range(2)]

    def run_roles(self, flags, script, code=0):
        jobs = self.start_roles(flags, script)
        self.assert_ends(jobs, code)
        self.assert_nothing_is_left()
        return jobs

    def starts_of(self, *tasks):
        return [(self.folder / task).stat().st_size for task in tasks]

    def test_tasks_are_dealt_to_the_hosts_round_robin_the_servers_first(self):
        jobs = self.run_roles(["--ps", 2, "--workers", 2, "--evaluator"], "print(json.dumps(config['cluster']))")
        found = [{line.split("] ")[0].strip("["): line.split("] ", 1)[1] for line in job.output[:-1]} for job in jobs]
        self.assertEqual([sorted(lines) for lines in found], [["evaluator:0", "ps:0", "worker:0"], ["ps:1", "worker:1"]])
        clusters = {cluster for lines in found for cluster in lines.values()}
        self.assertEqual(len(clusters), 1, clusters)
        tasks = json.loads(clusters.pop())
        self.assertEqual({job: len(addresses) for job, addresses in tasks.items()}, {"evaluator": 1, "ps": 2, "worker": 2})
        addresses = [address for job in tasks.values() for address in job]
        self.assertEqual(len(set(addresses)), 5, addresses)
        self.assertTrue(all(address.startswith("127.0.0.1:") for address in addresses), addresses)
        self.assertEqual([job.result()["processes"] for job in jobs], [5, 5])

    def test_a_task_of_any_host_is_restarted_alone(self):
        for task in ("worker:0", "worker:1"):
            with self.subTest(task=task):
                jobs = self.run_roles([*TWO, "--max-restarts", 1], f"""
count = starts()
if os.environ["BRIGADE_GENERATION"] != str(count - 1):
    sys.exit(2)
if me == "{task}" and count == 1:
    sys.exit(3)
if me == "{task}":
    (folder / "again").touch()
wait_for("again")
""")
                self.assertEqual([job.result()["restarts"] for job in jobs], [1, 1])
                failures = [failure["task"] for job in jobs for failure in job.result()["failures"]]
                self.assertEqual(failures, [task])
                for name in ("worker:0", "worker:1", "ps:0"):
                    self.assertEqual(self.starts_of(name), [2 if name == task else 1])
                    (self.folder / name).unlink()
                (self.folder / "again").unlink()

    def test_a_restarted_server_has_its_address_and_folder_again(self):
        self.run_roles(["--ps", 2, "--workers", 1, "--max-restarts", 1], """
if me == "ps:1":
    mine = json.dumps((config["cluster"], os.environ["BRIGADE_SERVER_FOLDER"]))
    state = pathlib.Path(os.environ["BRIGADE_SERVER_FOLDER"]) / "state"
    if not state.exists():
        state.write_text(mine)
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / ("same" if state.read_text() == mine else "differs")).touch()
    sys.exit(0)
wait_for("same")
""")

    def test_restarts_are_counted_for_the_job(self):
        # Each worker fails once: whichever comes second ends the job.
        jobs = self.run_roles([*TWO, "--max-restarts", 1], """
if me != "ps:0" and starts() == 1:
    sys.exit(4)
time.sleep(1000)
""", code=4)
        self.assertEqual([job.result()["restarts"] for job in jobs], [1, 1])
        texts = "\n".join(job.errors_text() for job in jobs)
        self.assertRegex(texts, r"worker:[01] failed first: exit code 4")
        self.assertRegex(texts, r"worker:[01] on host [01] \(.*\) failed first: exit code 4")

    def test_after_the_chief_no_worker_of_another_host_is_restarted(self):
        jobs = self.run_roles([*TWO, "--max-restarts", 3, "--grace", 0.3], """
if me == "worker:0":
    (folder / "pid").write_text(str(os.getpid()))
    (folder / "pid").rename(folder / "done")
    sys.exit(0)
if me == "ps:0":
    time.sleep(1000)
wait_for("done")
while pathlib.Path("/proc", (folder / "done").read_text()).exists():
    time.sleep(0.01)
time.sleep(0.7)  # in which the launchers hear of its end
sys.exit(5)
""", code=5)
        self.assertEqual([job.result()["restarts"] for job in jobs], [0, 0])

    def test_sigterm_to_any_host_ends_the_workers_of_all_and_then_the_servers(self):
        for told in range(2):
            with self.subTest(told=told):
                jobs = self.start_roles(TWO, """
def save(*_):
    if me == "ps:0":
        sys.exit(75 if all((folder / f"saved-{i}").exists() for i in range(2)) else 9)
    time.sleep(0.3)
    (folder / f"saved-{config['task']['index']}").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("ready", os.getpid(), flush=True)
time.sleep(1000)
""")
                self.ready(jobs, (2, 1))
                jobs[told].send(signal.SIGTERM)
                self.assert_ends(jobs, 75)
                for index in range(2):
                    (self.folder / f"saved-{index}").unlink()

    def test_all_tasks_begin_again_with_a_launcher_that_replaces_a_lost_one(self):
        script = """
kept = pathlib.Path(os.environ.get("BRIGADE_SERVER_FOLDER", folder)) / "kept"
print("old" if kept.exists() else "new", "generation", os.environ["BRIGADE_GENERATION"], flush=True)
if me == "ps:0":
    kept.touch()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
wait_for("enough")
"""
        flags = [*TWO, "--max-restarts", 1, "--grace", 1, "--start-timeout", LIMIT]
        jobs = self.start_roles(flags, script)
        jobs[0].line("[ps:0] new generation 0")
        jobs[1].line("[worker:0] new generation 0")
        jobs[1].send(signal.SIGKILL)
        jobs[1] = self.start_host(1, self.program(script), *flags)
        # A server of the lost host would have lost its folder: none keeps its own.
        jobs[0].line("[ps:0] new generation 1")
        jobs[1].line("[worker:0] new generation 1")
        (self.folder / "enough").touch()
        self.assert_ends(jobs, 0)
        self.assertEqual([job.result()["restarts"] for job in jobs], [1, 1])
        self.assert_nothing_is_left()

    def test_what_was_restarted_before_a_launcher_was_lost_is_in_the_result(self):
        script = """
if me == "worker:1" and starts() == 1:
    sys.exit(3)
print("ready", flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
wait_for("enough")
"""
        flags = [*TWO, "--max-restarts", 2, "--grace", 1, "--start-timeout", LIMIT]
        jobs = self.start_roles(flags, script)
        jobs[0].line("[worker:1] ready")
        jobs[1].line("[worker:0] ready")
        jobs[1].send(signal.SIGKILL)
        jobs[1] = self.start_host(1, self.program(script), *flags)
        jobs[1].line("[worker:0] ready")
        (self.folder / "enough").touch()
        self.assert_ends(jobs, 0)
        failures = jobs[0].result()["failures"]
        self.assertEqual([failure["task"] for failure in failures], ["worker:1", None])
        self.assertIn("The launcher of host 1 (", failures[1]["reason"])
        self.assertEqual([job.result()["restarts"] for job in jobs], [2, 2])

    def test_disagreeing_launchers_name_the_difference(self):
        jobs = [self.start_host(index, ["/bin/true"], "--ps", 1, "--workers", 2 + index) for index in range(2)]
        self.assert_ends(jobs, 2)
        self.assertIn("has --workers 3 and this one 2", jobs[0].errors_text())

    def test_too_few_ports_on_one_host_are_reported_to_all(self):
        # Each host has half of 15000 ports.
        for servers, code, saying in (((1, 20001), 2, "has --ps 20001 and this one 1"),
                                      ((20001, 20001), 1, "The launcher of host 0 (")):
            with self.subTest(servers=servers):
                jobs = [self.start_host(index, ["/bin/true"], "--ps", count) for index, count in enumerate(servers)]
                self.assert_ends(jobs, code)
                self.assertIn(saying, jobs[0].errors_text())
                self.assertRegex(jobs[1].errors_text(), "disagree" if code == 2 else "cannot start its tasks: .* free ports")


if __name__ == "__main__":
    unittest.main()

"""Processes with roles: parameter servers, workers, an evaluator. What each finds, and how the job goes on and ends."""
import json
import signal
import unittest

from launcher import LaunchTest, python

PRELUDE = """
import json, os, pathlib, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
me = f"{config['task']['type']}:{config['task']['index']}"
folder = pathlib.Path(sys.argv[1])
def wait_for(name):
    while not (folder / name).exists():
        time.sleep(0.01)
def starts():
    with open(folder / me, "a") as file:
        file.write("x")
    return (folder / me).stat().st_size
"""
TWO = ["--ps", 1, "--workers", 2]


class Roles(LaunchTest):
    def program(self, script):
        return python(PRELUDE + script, str(self.folder))

    def test_each_process_has_its_tf_config_and_label(self):
        job = self.run_job(["--ps", 2, "--workers", 2, "--evaluator"],
                           self.program("print(me, 'RANK' in os.environ, 'BRIGADE_RENDEZVOUS' in os.environ)"),
                           RANK="7", BRIGADE_RENDEZVOUS="localhost:1")
        labels = ["evaluator:0", "ps:0", "ps:1", "worker:0", "worker:1"]
        self.assertEqual(sorted(job.output), [f"[{label}] {label} False False" for label in labels])

    def test_a_chief_may_be_none_of_the_workers(self):
        job = self.run_job(["--ps", 1, "--workers", 2, "--chief", "--grace", 0.3], self.program("""
print(me, len(config["cluster"]["chief"]), len(config["cluster"]["worker"]), flush=True)
if me == "chief:0":
    wait_for("worker")
if me == "worker:1":
    (folder / "worker").touch()
if me == "ps:0":
    time.sleep(1000)
"""))
        labels = ["chief:0", "ps:0", "worker:0", "worker:1"]
        self.assertEqual(sorted(line for line in job.output), [f"[{label}] {label} 1 2" for label in labels])
        self.assert_nothing_is_left()

    def test_all_have_the_same_addresses_and_servers_a_folder_that_is_removed(self):
        job = self.run_job(TWO, self.program("print(json.dumps(config['cluster']), os.environ.get('BRIGADE_SERVER_FOLDER'))"))
        lines = {line.split("] ")[0].strip("["): line.split("] ", 1)[1] for line in job.output}
        clusters = {line.rpartition(" ")[0] for line in lines.values()}
        self.assertEqual(len(clusters), 1, lines)
        addresses = [address for tasks in json.loads(clusters.pop()).values() for address in tasks]
        self.assertEqual(len(set(addresses)), 3)
        self.assertTrue(all(address.startswith("127.0.0.1:") for address in addresses), addresses)
        folders = {task: line.rpartition(" ")[2] for task, line in lines.items()}
        self.assertEqual((folders["worker:0"], folders["worker:1"]), ("None", "None"))
        self.assertTrue(folders["ps:0"].startswith("/"))
        self.assertFalse(self.folder.__class__(folders["ps:0"]).exists())

    def test_each_server_may_have_a_replica(self):
        job = self.run_job(["--ps", 1, "--ps-replicas", 2, "--workers", 1], self.program(
            "print(me, len(config['cluster'].get('ps_replica', [])), 'BRIGADE_SERVER_FOLDER' in os.environ)"))
        self.assertEqual(sorted(job.output), ["[ps:0] ps:0 1 True", "[ps_replica:0] ps_replica:0 1 True", "[worker:0] worker:0 1 False"])

    def test_a_worker_that_fails_is_restarted_alone(self):
        job = self.run_job([*TWO, "--max-restarts", 2, "--json"], self.program("""
count = starts()
if os.environ["BRIGADE_GENERATION"] != str(count - 1):
    sys.exit(2)
if me == "worker:1" and count == 1:
    sys.exit(3)
if me == "worker:1":
    (folder / "again").touch()
wait_for("again")
"""))
        result = job.result()
        self.assertEqual((result["exit_code"], result["restarts"]), (0, 1))
        self.assertEqual([failure["task"] for failure in result["failures"]], ["worker:1"])
        self.assertEqual([(self.folder / name).read_text() for name in ("worker:0", "worker:1", "ps:0")], ["x", "xx", "x"])

    def test_a_restarted_server_has_its_address_and_folder_again(self):
        self.run_job([*TWO, "--max-restarts", 1], self.program("""
mine = (config["cluster"], os.environ.get("BRIGADE_SERVER_FOLDER"))
if me == "ps:0":
    state = pathlib.Path(mine[1]) / "state"
    if state.exists():
        same = state.read_text() == json.dumps(mine)
        (folder / ("same" if same else "differs")).touch()
        sys.exit(0)
    state.write_text(json.dumps(mine))
    os.kill(os.getpid(), signal.SIGKILL)
wait_for("same")
"""))

    def test_more_failures_than_restarts_end_the_job(self):
        job = self.run_job([*TWO, "--max-restarts", 1, "--json"],
                           self.program("if me == 'worker:1': print('so long', flush=True); sys.exit(4)\ntime.sleep(1000)"), code=4)
        result = job.result()
        self.assertEqual([failure["task"] for failure in result["failures"]], ["worker:1"] * 2)
        self.assertIn("worker:1 failed first: exit code 4", job.errors_text())
        self.assertIn("so long", job.errors_text())
        self.assert_nothing_is_left()

    def test_wrong_usage_is_not_restarted(self):
        job = self.run_job([*TWO, "--max-restarts", 5, "--json"],
                           self.program("if me == 'ps:0': sys.exit(2)\ntime.sleep(1000)"), code=2)
        self.assertEqual(job.result()["restarts"], 0)
        self.assert_nothing_is_left()

    def test_a_process_that_asks_for_a_restart_has_not_failed(self):
        job = self.run_job([*TWO, "--json"], self.program("""
if me == "ps:0" and starts() == 1:
    sys.exit(75)
if me == "ps:0":
    (folder / "again").touch()
wait_for("again")
"""))
        result = job.result()
        self.assertEqual((result["restarts"], result["membership_changes"], result["failures"]), (0, 1, []))

    def test_after_the_chief_no_worker_is_restarted(self):
        job = self.run_job([*TWO, "--max-restarts", 3, "--grace", 0.3, "--json"], self.program("""
if me == "worker:0":
    (folder / "done").touch()
    sys.exit(0)
if me == "ps:0":
    time.sleep(1000)
wait_for("done")
time.sleep(0.7)
sys.exit(5)
"""), code=5)
        self.assertEqual(job.result()["restarts"], 0)

    def test_workers_that_come_after_the_training_are_asked_to_end(self):
        for ending in ("sys.exit(75)", "sys.exit(1)", "time.sleep(1000)"):
            with self.subTest(ending=ending):
                job = self.run_job([*TWO, "--max-restarts", 3, "--grace", 0.3, "--json"], self.program(f"""
def end(*_):
    {ending}
if me == "worker:1":
    signal.signal(signal.SIGTERM, end)
    (folder / "late").touch()
    time.sleep(1000)
wait_for("late")
"""))
                result = job.result()
                self.assertEqual((result["restarts"], result["failures"]), (0, []))
                self.assertIn("after the training had ended", job.errors_text())
                self.assert_nothing_is_left()
                (self.folder / "late").unlink()

    def test_servers_that_stay_are_asked_to_end(self):
        self.run_job([*TWO, "--grace", 0.3], self.program("if me == 'ps:0': time.sleep(1000)"))
        self.assert_nothing_is_left()

    def test_servers_that_refuse_are_killed(self):
        self.run_job([*TWO, "--grace", 0.3],
                     self.program("if me == 'ps:0':\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(1000)"))
        self.assert_nothing_is_left()

    def test_sigterm_ends_the_workers_and_then_the_servers(self):
        job = self.start(TWO, self.program("""
def save(*_):
    if me == "ps:0":
        sys.exit(75 if (folder / "saved").exists() else 9)
    time.sleep(0.3)
    (folder / "saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(1000)
"""))
        ready = 0
        while ready < 3:
            ready += job.line("[").endswith("ready")
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75, job.errors_text())
        self.assert_nothing_is_left()

    def test_sigterm_to_tasks_that_then_are_done_is_0_also_after_a_restart(self):
        job = self.start([*TWO, "--max-restarts", 1], self.program("""
if me == "worker:1" and starts() == 1:
    sys.exit(3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(1000)
"""))
        ready = 0
        while ready < 3:
            ready += job.line("[").endswith("ready")
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 0, job.errors_text())
        self.assert_nothing_is_left()

    def test_output_files_have_the_names_of_tasks(self):
        self.run_job([*TWO, "--output-dir", self.folder / "logs"], self.program("print(me)"))
        names = sorted(path.name for path in (self.folder / "logs").glob("*.out"))
        self.assertEqual(names, ["ps_0.out", "worker_0.out", "worker_1.out"])

    def test_flags_that_exclude_each_other_are_named(self):
        lines = self.folder / "lines"
        lines.write_text("a\n")
        cases = [(["--workers", 2], "--workers"), (["--evaluator"], "--evaluator"), (["--chief"], "--chief"), (["--ps", 0], "--ps"),
                 (["--ps", 1, "--workers", 0], "--workers"), (["--ps", 1, "--nproc", 2], "--nproc"),
                 (["--ps", 1, "--independent"], "--independent"), (["--ps", 1, "--elastic", "1:2"], "--elastic"),
                 (["--ps", 1, "--per-rank", lines], "--per-rank"),
                 (["--ps", 1, "--nnodes", 3, "--node-rank", 0, "--rendezvous", "localhost:1"], "2 processes for 3 hosts"),
                 (["--ps", 1, "--nnodes", 0], "--nnodes"), (["--ps-replicas", 2], "--ps-replicas"),
                 (["--ps", 1, "--ps-replicas", 3], "--ps-replicas is 3")]
        for flags, word in cases:
            with self.subTest(flags=flags):
                self.assertIn(word, self.run_job(flags, ["/bin/true"], code=2).errors_text())


if __name__ == "__main__":
    unittest.main()

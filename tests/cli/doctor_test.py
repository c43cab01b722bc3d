"""What `brigade doctor` says of the environment, of a cluster's addresses and of its key."""
import json
import os
import socket
import subprocess
import unittest

from brigade_process import COMMAND, DEADLINE, CommandTest

CLUSTER_VARIABLES = ("TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_ADDR", "BRIGADE_RENDEZVOUS", "BRIGADE_CLUSTER_KEY",
                     "BRIGADE_CLUSTER_KEY_FILE", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NODELIST",
                     "BRIGADE_KUBERNETES_COMPLETIONS")


def doctor(*arguments, **variables):
    """Runs `brigade doctor` with these variables and no others that describe a cluster."""
    environment = {name: value for name, value in os.environ.items() if name not in CLUSTER_VARIABLES}
    return subprocess.run([COMMAND, "doctor", *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, env={**environment, **variables})


class Doctor(CommandTest):
    def examine(self, *arguments, status=0, **variables):
        result = doctor("--json", *arguments, **variables)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def listener(self):
        """A socket that listens on this machine, and its port."""
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        return taken.getsockname()[1]

    def free_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            return taken.getsockname()[1]

    def test_the_machine(self):
        checks = {check["name"]: check for check in self.examine(PATH="/nowhere")["machine"]}
        for name in ("libtorch", "GPU driver", "NCCL", "mpirun", "TensorBoard", "/dev/shm", "open files"):
            self.assertIn(name, checks)
        self.assertFalse(checks["TensorBoard"]["good"])
        self.assertIn("pip install tensorboard", checks["TensorBoard"]["advice"])
        for check in checks.values():
            self.assertEqual(check["good"], check["advice"] == "", check)

    def test_a_limit_that_no_training_can_live_with_is_a_problem(self):
        result = subprocess.run(["sh", "-c", f"ulimit -n 200; exec {COMMAND} doctor"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, r"PROBLEM +open files: 200; .*ulimit -n 65536")

    def test_without_a_cluster_all_is_well(self):
        found = self.examine()
        self.assertEqual(found["cluster"]["world_size"], 1)
        self.assertEqual(found["cluster"]["source"], "no cluster described")
        self.assertEqual((found["addresses"], found["key"], found["problems"]), ([], "none", []))
        self.assertGreaterEqual(found["usable_cores"], 1)

    def test_says_what_tf_config_means_and_tries_its_addresses(self):
        busy, free = self.listener(), self.free_port()
        config = {"cluster": {"worker": [f"127.0.0.1:{busy}", f"127.0.0.1:{free}"]}, "task": {"type": "worker", "index": 1}}
        found = self.examine(TF_CONFIG=json.dumps(config), RANK="0")
        self.assertEqual((found["cluster"]["source"], found["cluster"]["rank"]), ("TF_CONFIG", 1))
        self.assertEqual(found["cluster"]["task"], "/job:worker/task:1")
        self.assertEqual(found["sources"], ["TF_CONFIG", "torchrun"])
        self.assertEqual([(a["state"], a["port"]) for a in found["addresses"]], [("reachable", "taken"), ("refused", "free")])

    def test_with_parameter_servers_only_these_must_be_reachable(self):
        server = self.free_port()
        cluster = {"ps": [f"127.0.0.1:{server}"], "worker": ["no-such-host.invalid:1", "no-such-host.invalid:2"]}
        for job, index, role in (("ps", 0, "serves"), ("worker", 1, "trains"), ("evaluator", 0, "evaluates")):
            with self.subTest(job=job):
                found = self.examine("--timeout", "2", TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}))
                self.assertEqual((found["cluster"]["role"], found["cluster"]["parameter_servers"]), (role, 1))
                self.assertEqual((found["cluster"]["world_size"], found["cluster"]["rendezvous"]), (2, ""))
                self.assertEqual([(a["task"], a["used"]) for a in found["addresses"]],
                                 [("/job:ps/task:0", True), ("/job:worker/task:0", False), ("/job:worker/task:1", False)])
                self.assertEqual(found["problems"], [])

    def test_a_server_beyond_this_machine_needs_a_key_and_a_known_host(self):
        found = self.examine("--cluster", "ps=no-such-host.invalid:1;worker=localhost:2", "--task", "worker:0", "--timeout", "2", status=1)
        self.assertTrue(any("/job:ps/task:0" in problem for problem in found["problems"]), found["problems"])
        self.assertTrue(any("needs a cluster key" in problem for problem in found["problems"]), found["problems"])

    def test_a_wrong_environment_is_a_finding(self):
        found = self.examine(status=1, TF_CONFIG='{"cluster": ')
        self.assertIn("TF_CONFIG: it is not JSON: line 1, column 13", found["problems"][0])

    def test_finds_an_unknown_host_and_a_missing_key(self):
        found = self.examine("--cluster", "worker=no-such-host.invalid:1", "--timeout", "2", status=1)
        self.assertIn(found["addresses"][0]["state"], ("no such host", "timed out"))
        self.assertTrue(any("needs a cluster key" in problem for problem in found["problems"]), found["problems"])

    def test_looks_at_the_permissions_of_the_key(self):
        key = self.folder / "key"
        key.write_text("00" * 32)
        key.chmod(0o644)
        found = self.examine(status=1, BRIGADE_CLUSTER_KEY_FILE=str(key))
        self.assertIn(f"chmod 600 {key}", found["problems"][0])
        key.chmod(0o600)
        self.assertEqual(self.examine(BRIGADE_CLUSTER_KEY_FILE=str(key))["key"], "found")

    def test_shows_it_to_people(self):
        result = doctor("--cluster", f"worker=127.0.0.1:{self.free_port()}", "--task", "worker:0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("refused (nothing listens yet), on this host, port free", result.stdout)

    def test_refuses_a_cluster_that_is_none(self):
        self.refuse("doctor", "--cluster", "worker=a", saying=["'a' is not an address"])
        self.refuse("doctor", "--cluster", "/nowhere/cluster.json", saying=["/nowhere/cluster.json"])
        self.refuse("doctor", "--cluster", "worker=a:1,b:1", "--task", "worker:2", saying=["out of range"])
        self.refuse("doctor", "--timeout", "0", saying=["--timeout"])


if __name__ == "__main__":
    unittest.main()

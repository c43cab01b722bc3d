"""One process fails: which, how, and what the others did, in one report."""
import os
import signal
import unittest

from launcher import LaunchTest, python, shell


class Failures(LaunchTest):
    def test_a_killed_rank_is_named_with_its_last_lines_and_what_the_others_did(self):
        job = self.start(["--nproc", 3], shell(
            "trap 'echo saved; exit 75' TERM; for i in 1 2 3; do echo step $i; done; echo ready $$; while :; do sleep 0.01; done"))
        by_rank = {}
        while len(by_rank) < 3:
            line = job.line("[")
            if "ready" in line:
                by_rank[int(line[1])] = int(line.split()[-1])
        os.kill(by_rank[1], signal.SIGKILL)
        self.assertEqual(job.end(), 137)
        report = job.errors_text()
        self.assertIn("Rank 1 failed first: signal 9 (SIGKILL), ", report)
        self.assertIn(f"\n    step 2\n    step 3\n    ready {by_rank[1]}\n", report)
        for rank in (0, 2):
            self.assertIn(f"rank {rank} was running; it last said: ready {by_rank[rank]}; then it ended with exit code 75", report)
        self.assert_nothing_is_left()

    def test_the_report_is_in_the_json_too(self):
        job = self.run_job(["--nproc", 2, "--json"], shell("echo last words; exit 5"), code=5)
        failure = job.result()["failures"][0]
        self.assertIn("last words", failure["last_lines"])
        self.assertEqual(failure["reason"], "exit code 5")
        self.assertEqual(len(failure["others"]), 1)

    def test_only_the_last_twenty_lines_are_reported(self):
        job = self.run_job(["--json"], shell("i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done; exit 1"), code=1)
        self.assertEqual(job.result()["failures"][0]["last_lines"], [f"line {i}" for i in range(30, 50)])

    def test_who_fails_because_of_another_is_not_called_the_first(self):
        # Rank 0 ends as soon as its connection to rank 1 breaks, whose shim still has children to kill.
        program = python("""
import os, signal, socket, sys, time
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    connection = socket.create_server(address).accept()[0]
    print("met", flush=True)
    connection.recv(1)
    sys.exit(1)
while True:
    try:
        connection = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
""")
        job = self.run_job(["--nproc", 2], program, code=137)
        self.assertIn("Rank 1 failed first: signal 9 (SIGKILL)", job.errors_text())


if __name__ == "__main__":
    unittest.main()

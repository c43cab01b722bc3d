"""A process of a fork server is like one that was started by itself."""
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import unittest

import fork_server

COMMAND = os.environ["BRIGADE_COMMAND"]
DEADLINE = 60
TRAIN = ("train", "--model", "mlp", "--dataset", "synthetic", "--train-examples", "256", "--batch-size", "16", "--eval", "none",
         "--threads-per-replica", "1", "--allow-oversubscription")
ENDLESS = ("--steps", "100000000")


def plain(arguments, **more):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL, **more)


class ForkServer(unittest.TestCase):
    def run_both_ways(self, *arguments, env=None):
        """The results of a plain start and of a fork."""
        command = [COMMAND, *arguments]
        return plain(command, env=env), fork_server.run(command, timeout=DEADLINE, env=env)

    def assert_same(self, *arguments, code):
        started, forked = self.run_both_ways(*arguments)
        self.assertEqual(forked.returncode, code, forked.stderr)
        self.assertEqual((forked.returncode, forked.stdout, forked.stderr), (started.returncode, started.stdout, started.stderr))

    def test_gives_the_output_and_the_exit_code(self):
        self.assert_same("train", "--help", code=0)
        self.assert_same("tran", code=2)
        self.assert_same("train", "--model-dir", "", code=2)

    def test_passes_the_environment_and_the_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            (pathlib.Path(folder) / "run.toml").write_text("[train]\nmodel = 'no such model'\n")
            results = self.run_both_ways("train", "--config", "run.toml", env={"TF_CONFIG": "{"})
            self.assertEqual(*((result.returncode, result.stderr) for result in results))

    def test_trains_to_the_same_bits(self):
        started, forked = self.run_both_ways(*TRAIN, "--steps", "3", "--json", "--log-every", "0")
        self.assertEqual(forked.returncode, 0, forked.stderr)
        found = [result.stdout.partition('"weights_sha256"')[2][:70] for result in (started, forked)]
        self.assertTrue(found[0])
        self.assertEqual(found[0], found[1])

    def test_leaves_libraries_to_load_to_a_plain_start(self):
        result = fork_server.run([COMMAND, "--version"], timeout=DEADLINE, env={**os.environ, "LD_DEBUG": "files"})
        self.assertIn("calling init", result.stderr)

    def start(self):
        """A training that makes steps."""
        errors = tempfile.NamedTemporaryFile("w+")
        self.addCleanup(errors.close)
        with open(os.devnull, "wb") as null:
            process = fork_server.Process([COMMAND, *TRAIN, *ENDLESS, "--log-every", "1"], stdout=null, stderr=errors)
        self.addCleanup(process.send_signal, signal.SIGKILL)
        while "step " not in pathlib.Path(errors.name).read_text():
            self.assertIsNone(process.poll())
        return process

    def test_processes_run_at_the_same_time_and_take_signals(self):
        processes = [self.start(), self.start()]
        for process, number, code in zip(processes, (signal.SIGTERM, signal.SIGKILL), (75, -signal.SIGKILL)):
            self.assertIsNone(process.poll())
            process.send_signal(number)
            self.assertEqual(process.wait(DEADLINE), code)

    def test_a_deadline_ends_the_process(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            fork_server.run([COMMAND, *TRAIN, *ENDLESS], timeout=0.5)

    def test_no_process_survives_its_owner(self):
        script = ("import fork_server, os, sys\n"
                  "process = fork_server.Process(sys.argv[1:], stdout=sys.stderr, stderr=sys.stderr)\n"
                  "print(process.pid, flush=True)\n"
                  "os.kill(os.getpid(), 9)\n")
        owner = plain([sys.executable, "-B", "-c", script, COMMAND, *TRAIN, *ENDLESS, "--log-every", "0"])
        self.assertEqual(owner.returncode, -signal.SIGKILL, owner.stderr)
        descriptor = None
        try:
            descriptor = os.pidfd_open(int(owner.stdout))
        except ProcessLookupError:
            return
        self.addCleanup(os.close, descriptor)
        self.assertTrue(select.select([descriptor], [], [], DEADLINE)[0])


if __name__ == "__main__":
    unittest.main()

"""SIGINT, SIGTERM and SIGHUP: the step finishes, the weights are saved, the exit code says what happened."""
import json
import os
import pathlib
import pty
import signal
import time
import unittest

from brigade_process import COMMAND, DEADLINE, MLP, SLOWNESS, TWO_REPLICAS, CommandTest, started

SECONDS_TO_EXIT = 2 * SLOWNESS


def wait_until(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.001)


def catches(process, number):
    """Whether the process has a handler for this signal now."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def ticks_used(process):
    """Hundredths of a second that the process has computed."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def wait_for_first_step(process):
    for line in process.stderr:
        if line.startswith("step "):
            return
    raise AssertionError("the training ended before its first step")


class Interrupt(CommandTest):
    def interrupt(self, number, strategy):
        """Interrupts an endless training. Returns its status, report and messages."""
        with started("train", *MLP, *strategy, "--steps", "100000000", "--log-every", "0", "--model-dir", self.model_dir,
                     "--json") as process:
            wait_for_first_step(process)
            process.send_signal(number)
            begin = time.monotonic()
            out, err = process.communicate(timeout=DEADLINE)
            self.assertLess(time.monotonic() - begin, SECONDS_TO_EXIT)
            return process.returncode, json.loads(out.splitlines()[-1]), err

    def check(self, number, status, name, strategy):
        code, report, messages = self.interrupt(number, strategy)
        self.assertEqual(code, status, messages)
        self.assertTrue(report["interrupted"])
        self.assertEqual(report["signal"], name)
        self.assertGreaterEqual(report["steps"], 1)
        self.assertIsNone(report["eval_accuracy"])
        last = messages.splitlines()[-1]
        self.assertIn(f"stopped by {name} after step {report['steps']} of 100000000", last)
        self.assertIn(f"the weights are saved in {self.model_dir}", last)
        evaluated = self.succeed("evaluate", *MLP, "--model-dir", self.model_dir, "--json")
        self.assertEqual(evaluated["weights_sha256"], report["weights_sha256"])

    def test_sigint_on_one_replica(self):
        self.check(signal.SIGINT, 130, "SIGINT", ())

    def test_sigint_on_two_replicas(self):
        self.check(signal.SIGINT, 130, "SIGINT", TWO_REPLICAS)

    def test_sigterm_on_one_replica(self):
        self.check(signal.SIGTERM, 75, "SIGTERM", ())

    def test_sigterm_on_two_replicas(self):
        self.check(signal.SIGTERM, 75, "SIGTERM", TWO_REPLICAS)

    def test_sighup_on_one_replica(self):
        self.check(signal.SIGHUP, 75, "SIGHUP", ())

    def test_a_terminal_that_closes_ends_it_saved(self):
        """The training is the session's leader, as in a terminal window: the kernel sends it SIGHUP when its terminal is gone."""
        try:
            process, terminal = pty.fork()
        except OSError as error:
            self.skipTest(f"no terminal to be had here: {error}")
        if process == 0:
            os.execv(COMMAND, [COMMAND, "train", *MLP, "--steps", "100000000", "--log-every", "0", "--model-dir",
                               str(self.model_dir)])
        seen = b""
        while b"step " not in seen:
            seen += os.read(terminal, 4096)
        os.close(terminal)
        end = time.monotonic() + DEADLINE
        ended, status = 0, 0
        while not ended and time.monotonic() < end:
            ended, status = os.waitpid(process, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            self.fail("the training does not end")
        self.assertTrue((self.model_dir / "weights.safetensors").exists())
        result = json.loads((self.model_dir / "run.json").read_text())["result"]
        self.assertEqual(result["signal"], "SIGHUP")
        # Its summary has no terminal to go to.
        self.assertIn(os.waitstatus_to_exitcode(status), (75, 1))

    def test_several_hangups_are_one(self):
        """A shell sends SIGHUP to its jobs, and the kernel sends it again."""
        with started("train", *MLP, "--steps", "100000000", "--log-every", "0", "--model-dir", self.model_dir, "--json") as process:
            wait_for_first_step(process)
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: not catches(process, signal.SIGHUP))
            process.send_signal(signal.SIGHUP)
            out, err = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 75, err)
            self.assertEqual(json.loads(out.splitlines()[-1])["signal"], "SIGHUP")

    def test_under_nohup_hangups_are_nothing(self):
        with started("train", *MLP, "--steps", "100000000", "--log-every", "0", "--json", program=("nohup", COMMAND)) as process:
            wait_for_first_step(process)
            process.send_signal(signal.SIGHUP)
            for _ in range(3):
                wait_for_first_step(process)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 75, err)
            self.assertEqual(json.loads(out.splitlines()[-1])["signal"], "SIGTERM")

    def test_a_second_signal_ends_it_immediately(self):
        # A step of this takes about a second. Both signals come within the second step, long before its end.
        with started("train", "--model", "mlp", "--hidden", "2048,2048,2048", "--dataset", "synthetic",
                     "--train-examples", "2048", "--batch-size", "2048", "--optimizer", "sgd", "--steps", "1000",
                     "--eval", "none", "--log-every", "0") as process:
            wait_for_first_step(process)
            before = ticks_used(process)
            wait_until(lambda: ticks_used(process) >= before + 3)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: not catches(process, signal.SIGINT))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, -signal.SIGINT)

    def test_without_a_model_directory_it_says_that_nothing_is_kept(self):
        with started("train", *MLP, "--steps", "100000000", "--log-every", "0") as process:
            wait_for_first_step(process)
            process.send_signal(signal.SIGINT)
            _, messages = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 130)
            self.assertIn("without --model-dir the weights are dropped", messages)


if __name__ == "__main__":
    unittest.main()

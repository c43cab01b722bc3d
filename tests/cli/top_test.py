"""`brigade top`: a running training in a terminal, as lines and as JSON."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from brigade_process import COMMAND, DEADLINE, FRONT, MLP, CommandTest, run, started

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """`brigade top` in a terminal of its own."""

    def __init__(self, *arguments):
        try:
            self.outer, self.inner = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no terminal to be had here: {error}") from error
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 60, 0, 0))
        self.before = termios.tcgetattr(self.inner)
        self.process = subprocess.Popen([COMMAND, "top", *map(str, arguments)], stdin=self.inner, stdout=self.inner,
                                        stderr=subprocess.PIPE, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""

    def wait_for(self, words):
        end = time.monotonic() + DEADLINE
        while words not in self.seen:
            if time.monotonic() > end or not select.select([self.outer], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{words} did not come: {self.seen!r}")
            self.seen += os.read(self.outer, 65536)

    def press(self, keys):
        os.write(self.outer, keys)

    def end(self):
        self.wait_for(LEAVE)
        return self.process.wait(DEADLINE)

    def close(self):
        self.process.kill()
        self.process.communicate()
        os.close(self.outer)
        os.close(self.inner)


class Top(CommandTest):
    def training(self):
        context = started("train", *MLP, "--steps", "1000000", "--summaries-every", "2steps", "--save-every", "10steps",
                          "--log-every", "0", "--model-dir", self.model_dir)
        process = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        while "step 20/" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        end = time.monotonic() + DEADLINE
        while not self.once()["steps_per_second"]:  # an event is in the file after two seconds
            self.assertLess(time.monotonic(), end)
        return process

    def once(self, *flags):
        return self.succeed("top", self.model_dir, "--once", "--json", *flags)

    def test_a_running_training(self):
        self.training()
        found = self.once()
        self.assertEqual((found["state"], found["total_steps"], found["restarts"]), ("running", 1000000, 0))
        self.assertGreater(found["step"], 10)
        self.assertGreater(found["examples_per_second"], found["steps_per_second"])
        self.assertGreater(found["seconds_left"], 0)
        self.assertGreater(found["resident_bytes"], 1e7)
        self.assertEqual(found["checkpoint_step"] % 10, 0)
        self.assertAlmostEqual(sum(found["step_shares"][0].values()), 1, delta=0.01)
        text = run("top", self.model_dir).stdout  # which is no terminal
        self.assertRegex(text, r"steps +\d+.* of 1,000,000")
        self.assertNotIn("\x1b", text)

    def check_screen(self, leave, code):
        terminal = Terminal(self.model_dir, "--interval", "0.2")
        self.addCleanup(terminal.close)
        terminal.wait_for(b"q quits")
        self.assertIn(ENTER, terminal.seen)
        changed = termios.tcgetattr(terminal.inner)
        self.assertFalse(changed[3] & termios.ICANON)
        for line in re.sub(rb"\x1b\[[?0-9]*[a-zA-Z]", b"", terminal.seen).split(b"\r\n"):
            self.assertLessEqual(len(line.rstrip(b"\r").decode()), 60, line)
        shown = terminal.seen.count(b"\x1b[H")
        while terminal.seen.count(b"\x1b[H") < shown + 2:  # it refreshes
            terminal.seen += os.read(terminal.outer, 65536)
        leave(terminal)
        self.assertEqual(terminal.end(), code)
        self.assertEqual(termios.tcgetattr(terminal.inner), terminal.before)

    def test_the_screen_is_left_as_it_was(self):
        self.training()
        self.check_screen(lambda terminal: terminal.press(b"q"), 0)
        self.check_screen(lambda terminal: terminal.press(b"\x03"), 130)
        self.check_screen(lambda terminal: terminal.process.send_signal(signal.SIGTERM), 75)

    def test_the_ranks_of_a_launcher(self):
        launch = [FRONT, "launch", "-n", "2", "--status-port", "0", "--", "/bin/sleep", "600"]
        process = subprocess.Popen(launch, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+", iter_until(process.stderr, "Status: "))[0]
            end = time.monotonic() + DEADLINE
            while True:
                found = self.succeed("top", "--status", url, "--once", "--json")["status"]
                if found["ranks_up"] == {"0": True, "1": True}:
                    break
                self.assertLess(time.monotonic(), end)
            self.assertFalse(found["stopping"])
            self.assertIn("2 of 2 up", run("top", "--status", url).stdout)
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE)
        gone = run("top", "--status", url)
        self.assertEqual(gone.returncode, 1)
        self.assertIn("Nothing answers at", gone.stderr)

    def test_wrong_usage(self):
        self.refuse("top", saying=["model directory"])
        self.refuse("top", self.folder, saying=["not a model directory"])
        self.refuse("top", "--status", "http://example.com:80", saying=["status page of this machine"])
        self.refuse("top", self.folder, "--interval", "0", saying=["--interval"])


def iter_until(stream, words):
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"{words} did not come")


if __name__ == "__main__":
    unittest.main()

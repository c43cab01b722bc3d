"""Readers of the launcher's output that stall, and output that cannot be written: the job goes on, the loss is told, and
signals are obeyed."""
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
import unittest

from launcher import COMMAND, LIMIT, LaunchTest, clean_environment, python, shell

# Writes without an end, a line at a time, until a signal comes.
ENDLESS = shell("while :; do echo 0123456789012345678901234567890123456789; done")
# The same at the speed of memory, in pieces.
FLOOD = python("""
import os
while True:
    os.write(1, b"0123456789012345678901234567890123456789\\n" * 400)
""")


class Stalled(LaunchTest):
    def launch(self, flags, program, stdout, stderr=subprocess.PIPE, **more):
        process = subprocess.Popen([COMMAND, "launch", *map(str, flags), "--", *map(str, program)], stdin=subprocess.DEVNULL,
                                   stdout=stdout, stderr=stderr, env=clean_environment(self.mark), **more)

        def clean_up():
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()

        self.addCleanup(clean_up)
        return process

    def full_pipe(self):
        """A pipe into which nothing fits any more: its two ends, and what is in it."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        os.set_blocking(write, False)
        filled = 0
        try:
            while True:
                filled += os.write(write, b"\n" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(write, True)
        return read, write, filled

    def wait_until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)

    def test_a_reader_that_stalls_does_not_keep_the_launcher_from_ending(self):
        for both in (False, True):
            with self.subTest(both_streams=both):
                read, write, _ = self.full_pipe()
                marker = self.folder / f"ready{both}"
                program = python(f"""
import os
open({str(marker)!r}, "w").close()
while True:
    os.write(1, b"0123456789\\n" * 1000)
    os.write(2, b"0123456789\\n" * 1000)
""")
                grace = 8
                process = self.launch(["--nproc", 2, "--grace", grace], program, stdout=write,
                                      stderr=write if both else subprocess.DEVNULL)
                os.close(write)
                self.wait_until(marker.exists, "the program has not begun")
                begin = time.monotonic()
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(LIMIT), 75)
                self.assertLess(time.monotonic() - begin, grace + 2)
                self.assert_nothing_is_left()

    def test_the_job_continues_and_dropped_lines_are_counted(self):
        read, write, filled = self.full_pipe()
        done = self.folder / "done"
        program = python(f"""
import os
for _ in range(1000):
    os.write(1, b"0123456789\\n" * 1000)  # 10 MiB in all
open({str(done)!r}, "w").close()
""")
        process = self.launch(["--json"], program, stdout=write)
        os.close(write)
        self.wait_until(done.exists, "the job does not go on while nobody reads")
        text = b""
        while piece := os.read(read, 1 << 20):
            text += piece
        self.assertEqual(process.wait(LIMIT), 0)
        lines = text[filled:].decode().splitlines()
        result = json.loads(lines.pop())
        self.assertGreater(result["dropped_lines"], 0)
        self.assertEqual(lines, ["[0] 0123456789"] * len(lines))
        self.assertEqual(len(lines) + result["dropped_lines"], 1_000_000)
        self.assertIn(f"[warning] {result['dropped_lines']:,} lines dropped", process.stderr.read().decode())

    def test_a_slow_reader_that_reads_loses_nothing(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        process = self.launch([], python("import os\nfor _ in range(800): os.write(1, b'0123456789\\n' * 1000)"), stdout=write)
        os.close(write)
        count = 0
        while piece := os.read(read, 1 << 16):
            count += piece.count(b"\n")
            select.select([], [], [], 0.001)  # less than the program can write
        self.assertEqual(count, 800_000)
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertEqual(process.stderr.read(), b"")

    def test_a_second_signal_is_obeyed_while_nobody_reads(self):
        read, write, _ = self.full_pipe()
        process = self.launch(["--grace", 1000], shell("trap 'echo no' INT TERM; echo ready >&2; while :; do echo y; done"),
                              stdout=write)
        os.close(write)
        self.assertEqual(process.stderr.readline(), b"[0] ready\n")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 75)
        self.assert_nothing_is_left()

    def test_healthz_answers_while_nobody_reads(self):
        read, write, _ = self.full_pipe()
        process = self.launch(["--status-port", 0], FLOOD, stdout=write)
        os.close(write)
        line = process.stderr.readline().decode()
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        import http.client  # pylint: disable=import-outside-toplevel
        end = time.monotonic() + 3
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
            connection.request("GET", "/healthz")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 75)

    def test_standard_output_on_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            process = self.launch([], shell("echo one; echo two"), stdout=full)
            self.assertEqual(process.wait(LIMIT), 1)
        self.assertEqual(process.stderr.read().decode(),
                         "brigade: error: standard output cannot be written: No space left on device; 2 lines lost\n")

    def test_standard_output_that_is_closed_is_an_error(self):
        job = self.run_job(["--output-dir", self.folder], ["/bin/echo", "one"],
                           prefix=["/bin/sh", "-c", 'exec "$0" "$@" >&-'], code=1)
        self.assertEqual(job.errors, ["brigade: error: standard output cannot be written: Bad file descriptor; 1 line lost"])
        self.assertEqual((self.folder / "rank_0.out").read_text(), "one\n")

    def test_a_failing_job_keeps_its_code_without_output(self):
        with open("/dev/full", "wb") as full:
            process = self.launch(["--json"], shell("exit 7"), stdout=full)
            self.assertEqual(process.wait(LIMIT), 7)
        self.assertIn("standard output cannot be written", process.stderr.read().decode())

    def test_a_new_key_that_cannot_be_written_is_an_error(self):
        for redirection in (">/dev/full", ">&-"):
            done = subprocess.run(["/bin/sh", "-c", f'exec "$0" launch --new-key {redirection}', COMMAND], capture_output=True,
                                  text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 1, redirection)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("standard output cannot be written", done.stderr)


class OutputDirectory(LaunchTest):
    def test_a_file_on_a_full_disk_is_reported_and_is_1(self):
        (self.folder / "rank_1.out").symlink_to("/dev/full")
        job = self.start(["--nproc", 2, "--json", "--output-dir", self.folder],
                         shell("echo hello; echo ready $RANK >&2; while [ ! -e $0/go ]; do sleep 0.01; done") + [str(self.folder)])
        job.line("[error] Output is lost: ")  # while the job runs
        (self.folder / "go").touch()
        self.assertEqual(job.end(), 1)
        name = str(self.folder / "rank_1.out")
        self.assertEqual(job.result()["exit_code"], 1)
        self.assertEqual(job.result()["lost_output"], [{"file": name, "reason": os.strerror(errno.ENOSPC), "bytes": 6}])
        self.assertIn(f"{name} lacks 6 bytes", job.errors_text())
        self.assertEqual((self.folder / "rank_0.out").read_text(), "hello\n")

    def test_a_file_that_outgrows_its_limit_is_reported_and_is_1(self):
        limited = [sys.executable, "-c", "import os, resource, sys\n"
                   "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\nos.execv(sys.argv[1], sys.argv[1:])"]
        job = self.run_job(["--output-dir", self.folder, "--json", "--show-ranks", 0],
                           python("import os\nfor _ in range(500): os.write(1, b'x' * 999 + b'\\n')"), prefix=limited, code=1)
        self.assertEqual((self.folder / "rank_0.out").stat().st_size, 65536)
        self.assertEqual(job.result()["lost_output"][0]["bytes"], 500_000 - 65536)
        self.assertEqual(len(job.output), 501)


if __name__ == "__main__":
    unittest.main()

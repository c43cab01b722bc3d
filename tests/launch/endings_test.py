"""How a job ends: by itself, by signals, with which exit code."""
import re
import signal
import subprocess
import time
import unittest

from launcher import COMMAND, LIMIT, LaunchTest, python, shell

READY = "echo ready $$; while :; do sleep 0.01; done"


class ExitCodes(LaunchTest):
    def test_all_well_is_0(self):
        self.run_job(["--nproc", 2], ["/bin/true"])

    def test_the_first_failing_ranks_code(self):
        job = self.run_job(["--nproc", 3, "--json"], shell("[ $RANK = 1 ] && exit 7; exec sleep 1000"), code=7)
        self.assertEqual(job.result()["failures"][0]["rank"], 1)
        self.assertEqual(job.result()["exit_code"], 7)

    def test_a_signal_is_128_and_its_number(self):
        self.run_job([], shell("kill -SEGV $$"), code=139)

    def test_wrong_usage_is_not_tried_again(self):
        job = self.run_job(["--max-restarts", 3, "--json"], shell("exit 2"), code=2)
        self.assertEqual(job.result()["restarts"], 0)

    def test_a_program_that_is_not_there(self):
        job = self.run_job([], ["/nowhere/program"], code=2)
        self.assertEqual(job.errors, ["brigade: error: '/nowhere/program' is not an executable program on this machine."])

    def test_a_program_that_cannot_be_executed(self):
        script = self.folder / "script"
        script.write_text("#!/nowhere/interpreter\n")
        script.chmod(0o755)
        job = self.run_job([], [script], code=127)
        self.assertIn("cannot start", job.errors_text())

    def test_wrong_flags(self):
        for flags in (["--nproc", 0], ["--elastic", "2"], ["--elastic", "3:4", "--nproc", 2], ["--bind", "x"],
                      ["--grace", "-1"], ["--status-port", 70000], ["--no-such-flag"], ["--per-rank", "/nowhere"]):
            job = self.run_job(flags, ["/bin/true"], code=2)
            self.assertEqual(len(job.errors), 1, job.errors)
            self.assertTrue(job.errors[0].startswith("brigade: error: "), job.errors)

    def test_empty_values_name_their_flag(self):
        listed = subprocess.run([COMMAND, "launch", "--help"], capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        flags = re.findall(r"(?m)^ +(?:-\w,)?((?:--[\w-]+,?)+) (?:[A-Z]|\[)", listed)
        names = [name for group in flags for name in group.rstrip(",").split(",")]
        self.assertLessEqual({"--nproc", "--elastic", "--per-rank", "--key-file", "--show-ranks", "--output-dir"}, set(names))
        for name in names:
            for words in ([name, ""], [name + "="]):
                with self.subTest(words=words):
                    job = self.run_job(words, ["/bin/true"], code=2)
                    self.assertEqual(len(job.errors), 1, job.errors)
                    self.assertTrue(job.errors[0].startswith(f"brigade: error: {name} is given an empty value"), job.errors)
        self.assertEqual(self.run_job(["--prefix", "none"], ["/bin/echo", "", "--key-file="]).output, [" --key-file="])

    def test_arguments_for_each_rank_are_in_a_file(self):
        job = self.run_job(["--per-rank", self.folder], ["/bin/true"], code=2)
        self.assertIn(f"{self.folder} is a folder", job.errors_text())
        empty = self.folder / "empty"
        empty.touch()
        job = self.run_job(["--per-rank", empty], ["/bin/true"], code=2)
        self.assertIn(f"{empty} has no line", job.errors_text())

    def test_ranks_to_show_are_ranks_of_the_job(self):
        for shown in ("2", "0,2", "-1"):
            job = self.run_job(["--nproc", 2, f"--show-ranks={shown}"], ["/bin/true"], code=2)
            self.assertIn("the job has ranks 0 to 1", job.errors_text())
        self.run_job(["--nproc", 2, "--elastic", "1:3", "--show-ranks", "2"], ["/bin/true"])

    def test_a_new_key(self):
        job = self.run_job(["--new-key"], [])
        self.assertRegex(job.output[0], "^[0-9a-f]{64}$")


class Signals(LaunchTest):
    def ready(self, script, count=2, flags=()):
        job = self.start(["--nproc", count, *flags], shell(script))
        return job, [job.number("[") for _ in range(count)]

    def test_sigint_reaches_all_and_is_130(self):
        job, _ = self.ready("trap 'echo interrupted; exit 130' INT; " + READY)
        job.send(signal.SIGINT)
        self.assertEqual(job.end(), 130)
        self.assertEqual(sorted(job.output[2:]), ["[0] interrupted", "[1] interrupted"])

    def test_sigterm_reaches_all_and_is_75(self):
        job, _ = self.ready("trap 'echo saved; exit 75' TERM; " + READY)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assertEqual(sorted(job.output[2:]), ["[0] saved", "[1] saved"])

    def test_sigterm_to_those_who_then_end_well_is_0(self):
        job, _ = self.ready("trap 'exit 0' TERM; " + READY)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 0)

    def test_who_cannot_save_at_sigterm_is_reported(self):
        job, _ = self.ready("trap 'echo disk full; exit 1' TERM; " + READY, count=1)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 1)
        self.assertIn("disk full", job.errors_text())

    def test_sighup_is_as_sigterm(self):
        job, _ = self.ready("trap 'exit 75' TERM; " + READY)
        job.send(signal.SIGHUP)
        self.assertEqual(job.end(), 75)

    def test_a_second_sigint_kills(self):
        job, programs = self.ready("trap 'echo no' INT TERM; " + READY, flags=["--grace", 1000])
        job.send(signal.SIGINT)
        for _ in programs:
            job.line("[")
        job.send(signal.SIGINT)
        self.assertEqual(job.end(), 130)
        self.assert_nothing_is_left()

    def test_who_does_not_stop_is_killed_after_the_grace_period(self):
        job, _ = self.ready("trap 'echo no' TERM; " + READY, flags=["--grace", 0.5])
        begin = time.monotonic()
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assertGreaterEqual(time.monotonic() - begin, 0.5)
        self.assert_nothing_is_left()

    def test_who_needs_the_grace_period_has_it(self):
        job, _ = self.ready("trap 'sleep 1; echo saved; exit 75' TERM; " + READY)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)
        self.assertEqual(sorted(job.output[2:]), ["[0] saved", "[1] saved"])

    def test_programs_begin_without_blocked_or_ignored_signals(self):
        job = self.run_job([], python("print(*[line.split()[1] for line in open('/proc/self/status')"
                                      " if line.startswith(('SigBlk', 'SigIgn'))])"))
        blocked, ignored = job.output[0].split()[1:]
        self.assertEqual(int(blocked, 16), 0)
        python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
        glibc_ignores = 1 << 31 | 1 << 32  # of its own, in every process that posix_spawn starts
        self.assertEqual(int(ignored, 16) & ~python_ignores & ~glibc_ignores, 0)


if __name__ == "__main__":
    unittest.main()

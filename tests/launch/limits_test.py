"""Where threads and memory are short: an error in time that says so, and signals are obeyed."""
import os
import resource
import subprocess
import time
import unittest

from launcher import COMMAND, LIMIT, LaunchTest, clean_environment, shell

MEMBER = os.environ["BRIGADE_LAUNCH_MEMBER"]
USER = 4_000_000 + os.getpid() % 100_000  # of whom no other process is; the limit counts a user's processes and threads

IS_SANITIZED = float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1")) > 1
needs_little_memory = unittest.skipIf(IS_SANITIZED, "a sanitizer itself needs more threads and address space than these limits allow")


@needs_little_memory
@unittest.skipUnless(os.geteuid() == 0, "only root can start a process as another user, and root has no such limit")
class Threads(LaunchTest):
    def limited(self, most, *flags):
        def become_limited():
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))

        try:
            return subprocess.run([COMMAND, "launch", "--nproc", "2", *flags, "--", "/bin/echo", "hello"], capture_output=True,
                                  text=True, timeout=LIMIT, preexec_fn=become_limited, cwd="/", check=False,
                                  env=clean_environment(self.mark))
        except PermissionError:
            self.skipTest("another user cannot run the command where it lies")

    def test_a_launcher_without_threads_ends_with_an_error(self):
        for most in (1, 2, 3, 4, 6, 8, 10):
            with self.subTest(processes=most):
                done = self.limited(most)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertRegex(done.stderr, "^brigade: error: .*thread.*ulimit -u")

    def test_a_launcher_with_few_threads_never_hangs(self):
        for most in (12, 14, 16, 18, 20, 24):
            with self.subTest(processes=most):
                done = self.limited(most)
                self.assertIn(done.returncode, (0, 1, 127), done.stderr)
                self.assertEqual(done.returncode == 0, done.stdout.count("hello") == 2)
        self.assertEqual(self.limited(200).returncode, 0)


@needs_little_memory
class AddressSpace(LaunchTest):
    def test_members_without_memory_for_threads_end_with_an_error(self):
        for kibibytes in (150_000, 300_000, 500_000):
            with self.subTest(kibibytes=kibibytes):
                begin = time.monotonic()
                job = self.start(["--nproc", 2], shell(f"ulimit -v {kibibytes}; exec {MEMBER} leave"))
                self.assertEqual(job.end(), 1, job.errors_text())
                self.assertRegex(job.errors_text(), "gRPC, which connects processes, needs [0-9]+ threads, but")
                self.assertIn("ulimit -v", job.errors_text())
                self.assertLess(time.monotonic() - begin, LIMIT / 2)  # the start-timeout is 60 s


if __name__ == "__main__":
    unittest.main()

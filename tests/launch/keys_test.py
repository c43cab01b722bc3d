"""The cluster key of a job: made for it, handed to its processes as a descriptor, and to nobody else.

BRIGADE_RPC_STRANGER names a program that makes calls to a rendezvous of which it is no member (tests/rpc)."""
import os
import pathlib
import signal
import subprocess
import unittest

from launcher import LIMIT, LaunchTest, python, shell, state

MEMBER = os.environ["BRIGADE_LAUNCH_MEMBER"]
STRANGER = os.environ["BRIGADE_RPC_STRANGER"]
KEY = "5" * 64
SHOWS = shell("echo ${BRIGADE_CLUSTER_KEY-none} ${BRIGADE_CLUSTER_KEY_FILE-none} $([ -e /proc/self/fd/19 ] && cat /proc/self/fd/19)")


class Keys(LaunchTest):
    def joined(self, job, count):
        found = []
        while len(found) < count:
            words = job.line("[").split()
            if words[1] == "joined":
                found.append(int(words[3]))
        return found

    def parent(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def test_every_job_has_its_own_key(self):
        keys = []
        for _ in range(2):
            job = self.run_job(["--nproc", 2], SHOWS)
            found = [line.split()[1:] for line in job.output]
            self.assertEqual([each[:2] for each in found], [["none", "/proc/self/fd/19"]] * 2)
            self.assertRegex(found[0][2], "^[0-9a-f]{64}$")
            self.assertEqual(found[0][2], found[1][2])
            keys.append(found[0][2])
        self.assertNotEqual(*keys)

    def test_a_key_that_was_given_is_the_jobs(self):
        for given in ({"BRIGADE_CLUSTER_KEY": KEY}, {"BRIGADE_CLUSTER_KEY_FILE": str(self.key_file())}):
            job = self.run_job(["--nproc", 1], SHOWS, **given)
            self.assertEqual(job.output, [f"[0] none /proc/self/fd/19 {KEY}"])

    def key_file(self):
        path = self.folder / "key"
        path.write_text(KEY)
        path.chmod(0o600)
        return path

    def test_no_environment_and_no_command_line_has_its_text(self):
        for given in ({}, {"BRIGADE_CLUSTER_KEY_FILE": str(self.key_file())}):
            job = self.start(["--nproc", 2], [MEMBER], **given)
            for pid in self.joined(job, 2):
                key = pathlib.Path(f"/proc/{pid}/fd/19").read_bytes().strip()
                self.assertRegex(key, b"^[0-9a-f]{64}$")
                for each in (pid, self.parent(pid), job.pid):  # the program, its shim, the launcher
                    for file in ("environ", "cmdline"):
                        self.assertNotIn(key, pathlib.Path(f"/proc/{each}/{file}").read_bytes())
            job.send(signal.SIGTERM)
            self.assertEqual(job.end(), 75)

    def test_independent_processes_get_none(self):
        for given in ({}, {"BRIGADE_CLUSTER_KEY": KEY}, {"BRIGADE_CLUSTER_KEY_FILE": str(self.key_file())}):
            job = self.run_job(["--independent", "--nproc", 2], SHOWS, **given)
            self.assertEqual(sorted(job.output), ["[0] none none", "[1] none none"])

    def test_processes_that_are_started_again_have_it_too(self):
        job = self.start(["--nproc", 2, "--max-restarts", 1], [MEMBER])
        os.kill(self.joined(job, 2)[0], signal.SIGKILL)
        self.joined(job, 2)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)

    def test_so_has_a_process_that_is_taken_in_later(self):
        job = self.start(["--nproc", 2, "--elastic", "2:3"], shell(f"trap 'exit 75' TERM; {MEMBER} & wait"))
        self.joined(job, 2)
        job.send(signal.SIGUSR1)
        self.joined(job, 3)
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)

    def test_a_stranger_on_loopback_gets_nowhere(self):
        job = self.start(["--nproc", 2], shell(f"echo rendezvous at $BRIGADE_RENDEZVOUS; exec {MEMBER}"))
        address = job.line("[0] rendezvous").split()[-1]
        pids = self.joined(job, 2)
        found = subprocess.run([STRANGER, address], stdout=subprocess.PIPE, text=True, timeout=5 * LIMIT, check=True)
        self.assertEqual({line.split()[-1] for line in found.stdout.splitlines()}, {"UNAVAILABLE"})
        self.assertTrue(all(state(pid) for pid in pids))
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 75)

    def test_a_program_below_that_was_not_given_the_descriptor_says_so(self):
        closes = python("import subprocess, sys; sys.exit(subprocess.run([sys.argv[1]]).returncode)", MEMBER)
        job = self.run_job(["--nproc", 2], closes, code=1)
        self.assertIn("a process in between has closed it", job.errors_text())
        hands_on = python("import subprocess, sys; sys.exit(subprocess.run([sys.argv[1], 'leave'], pass_fds=[19]).returncode)", MEMBER)
        self.run_job(["--nproc", 2], hands_on)


if __name__ == "__main__":
    unittest.main()

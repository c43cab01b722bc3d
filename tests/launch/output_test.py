"""What the processes of a job write, and where it comes out."""
import os
import pathlib
import subprocess
import time
import unittest

from launcher import COMMAND, LaunchTest, python, shell


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Output(LaunchTest):
    def test_each_line_has_its_rank_and_lines_never_mix(self):
        piecewise = python("""
import os, sys
for i in range(200):
    os.write(1, b"begin ")
    os.write(1, b"middle ")
    os.write(1, b"end %d\\n" % i)
""")
        job = self.run_job(["--nproc", 3], piecewise)
        for rank in range(3):
            own = [line for line in job.output if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] begin middle end {i}" for i in range(200)])
        self.assertEqual(len(job.output), 600)

    def test_output_and_errors_stay_apart(self):
        job = self.run_job([], shell("echo out; echo err >&2"))
        self.assertEqual(job.output, ["[0] out"])
        self.assertEqual(job.errors, ["[0] err"])

    def test_files_hold_every_ranks_output_though_one_is_shown(self):
        logs = self.folder / "logs"
        job = self.run_job(["--nproc", 2, "--show-ranks", 1, "--prefix", "none", "--output-dir", logs],
                           shell("echo out of $RANK; echo err of $RANK >&2"))
        self.assertEqual(job.output, ["out of 1"])
        self.assertEqual(job.errors, ["err of 1"])
        for rank in range(2):
            self.assertEqual((logs / f"rank_{rank}.out").read_text(), f"out of {rank}\n")
            self.assertEqual((logs / f"rank_{rank}.err").read_text(), f"err of {rank}\n")

    def test_what_was_written_just_before_the_end_comes_out(self):
        job = self.run_job([], python("import os; os.write(1, b'x\\n' * 300000); os.write(1, b'last'); os._exit(0)"))
        self.assertEqual(len(job.output), 300001)
        self.assertEqual(job.output[-1], "[0] last")

    def test_a_program_that_closes_its_output_costs_no_processor_time(self):
        job = self.start([], shell("echo ready; exec >&- 2>&-; sleep 1000"))
        job.line("[0] ready")
        before = processor_seconds(job.pid)
        time.sleep(1)
        self.assertLess(processor_seconds(job.pid) - before, 0.3)

    def test_a_job_whose_reader_goes_away_ends(self):
        reader = f"'{COMMAND}' launch -- /bin/sh -c 'while :; do echo y; done' | head -n 1"
        done = subprocess.run(["/bin/sh", "-c", reader], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "BRIGADE_LAUNCH_TEST": self.mark})
        self.assertEqual(done.stdout, "[0] y\n")
        self.assert_nothing_is_left()

    def test_processes_learn_who_they_are(self):
        job = self.run_job(["--nproc", 2], shell("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $BRIGADE_GENERATION"))
        self.assertEqual(sorted(job.output), ["[0] 0 2 0 2 127.0.0.1 0", "[1] 1 2 1 2 127.0.0.1 0"])

    def test_the_master_port_is_free_for_rank_0_and_the_same_for_all(self):
        job = self.run_job(["--nproc", 2], python("""
import os, socket
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    server = socket.create_server(address)
    server.settimeout(30)
    print("met", server.accept()[0].recv(1))
else:
    import time
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(address).send(b"x")
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
"""))
        self.assertEqual(job.output, ["[0] met b'x'"])

    def test_the_program_has_no_descriptors_of_the_launcher_but_the_key(self):
        job = self.run_job(["--nproc", 2, "--status-port", 0], python("""
import os
print(*sorted(os.readlink(f"/proc/self/fd/{name}").split(":")[0] for name in os.listdir("/proc/self/fd")
              if os.path.exists(f"/proc/self/fd/{name}")))"""))
        self.assertEqual(sorted(job.output), ["[0] /dev/null /memfd pipe pipe", "[1] /dev/null /memfd pipe pipe"])

    def test_cores_are_divided(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("one core")
        script = python("import os; print(*sorted(os.sched_getaffinity(0)))")
        divided = [set(line.split()[1:]) for line in self.run_job(["--nproc", 2], script).output]
        whole = [set(line.split()[1:]) for line in self.run_job(["--nproc", 2, "--bind", "none"], script).output]
        everything = {str(core) for core in cores}
        self.assertEqual(whole, [everything, everything])
        if divided != whole:  # a limit in time forbids pinning
            self.assertEqual(divided[0] | divided[1], everything)
            self.assertEqual(divided[0] & divided[1], set())

    def test_gpus_set_by_hand_are_divided(self):
        job = self.run_job(["--nproc", 2], shell("echo $CUDA_VISIBLE_DEVICES"), CUDA_VISIBLE_DEVICES="4,5,6,7")
        self.assertEqual(sorted(job.output), ["[0] 4,5", "[1] 6,7"])
        job = self.run_job(["--nproc", 2, "--gpus", "none"], shell("echo $CUDA_VISIBLE_DEVICES"), CUDA_VISIBLE_DEVICES="4")
        self.assertEqual(sorted(job.output), ["[0] 4", "[1] 4"])
        job = self.run_job(["--nproc", 2], shell("echo $CUDA_VISIBLE_DEVICES"), CUDA_VISIBLE_DEVICES="4")
        self.assertIn("GPU 4 is shared by the processes 0, 1", job.errors_text())

    def test_overhead_is_printed(self):
        program = ["/bin/true"]
        times = []
        for _ in range(5):
            begin = time.monotonic()
            self.run_job(["--nproc", 2], program)
            times.append(time.monotonic() - begin)
        print(f"two trivial processes: {min(times):.3f} s at best, {sorted(times)[2]:.3f} s in the middle", flush=True)


if __name__ == "__main__":
    unittest.main()

"""Processes that have nothing to do with each other, each with arguments of its own."""
import signal
import unittest

from launcher import LaunchTest, shell

ARGUMENTS = """# a sweep
--rate 0.1

--rate 0.01 --name 'a b'
--rate 1
"""


class Independent(LaunchTest):
    def setUp(self):
        super().setUp()
        self.lines = self.folder / "rates.txt"
        self.lines.write_text(ARGUMENTS)

    def test_each_has_its_line_of_arguments(self):
        job = self.run_job(["--independent", "--per-rank", self.lines],
                           ["/bin/sh", "-c", 'printf "%s|" "$@"; echo', "sh", "--dir", "run-{rank}-of-{world_size}"])
        self.assertEqual(sorted(job.output), ["[0] --dir|run-0-of-3|--rate|0.1|", "[1] --dir|run-1-of-3|--rate|0.01|--name|a b|",
                                              "[2] --dir|run-2-of-3|--rate|1|"])

    def test_nobody_knows_of_the_others(self):
        job = self.run_job(["--independent", "--nproc", 2],
                           shell("echo ${RANK-none} ${WORLD_SIZE-none} ${MASTER_ADDR-none} ${BRIGADE_RENDEZVOUS-none} $LOCAL_RANK"),
                           RANK="7", MASTER_ADDR="elsewhere")
        self.assertEqual(sorted(job.output), ["[0] none none none none 0", "[1] none none none none 1"])

    def test_one_that_fails_does_not_stop_the_others(self):
        job = self.run_job(["--independent", "--nproc", 3, "--json"],
                           shell("[ $LOCAL_RANK = 1 ] && exit 4; sleep 0.3; echo done"), code=4)
        self.assertEqual(sorted(job.output[:-1]), ["[0] done", "[2] done"])
        self.assertEqual([failure["rank"] for failure in job.result()["failures"]], [1])

    def test_one_that_fails_is_started_again_alone(self):
        file = f"{self.folder}/count-$LOCAL_RANK"
        job = self.run_job(["--independent", "--nproc", 2, "--max-restarts", 3, "--json"],
                           shell(f"echo x >> {file}; [ $LOCAL_RANK = 0 ] || [ $(wc -l < {file}) -ge 3 ]"))
        self.assertEqual(job.result()["restarts"], 2)
        self.assertEqual((self.folder / "count-0").read_text(), "x\n")
        self.assertEqual((self.folder / "count-1").read_text(), "x\n" * 3)

    def test_the_report_of_one_does_not_list_the_others(self):
        job = self.start(["--independent", "--nproc", 2, "--json"],
                         shell("[ $LOCAL_RANK = 1 ] && trap 'exit 4' TERM; echo ready; while :; do sleep 0.1; done"))
        for _ in range(2):
            job.line("[")
        job.send(signal.SIGTERM)
        self.assertEqual(job.end(), 4, job.errors_text())
        self.assertEqual([(failure["rank"], failure["others"]) for failure in job.result()["failures"]], [(1, [])])

    def test_lines_and_processes_must_be_equally_many(self):
        job = self.run_job(["--per-rank", self.lines, "--nproc", 2], ["/bin/true"], code=2)
        self.assertIn("arguments for 3 processes, but the job has 2", job.errors_text())


if __name__ == "__main__":
    unittest.main()

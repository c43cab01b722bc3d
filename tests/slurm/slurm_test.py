"""Trainings in jobs of a real Slurm with two node daemons: by srun, and by sbatch with a requeue after exit code 75."""
import os
import pathlib
import signal
import tempfile
import unittest

import slurm_cluster
import workers

TRAIN = (workers.COMMAND, "train", *workers.WORKERS, *workers.TINY, "--batch-size", "16", "--peer-timeout", "60s")
SCRIPT = """#!/bin/sh
srun --export=ALL {command} 2>> {folder}/errors.txt >> {folder}/results.txt
code=$?
echo $code >> {folder}/codes.txt
exit $code
"""


@unittest.skipIf(slurm_cluster.why_not() is not None, slurm_cluster.why_not())
class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.SlurmCluster()
        cls.addClassCleanup(cls.cluster.stop)
        try:
            cls.cluster.start()
        except AssertionError as error:
            raise AssertionError(cls.cluster.logs()) from error

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-slurm-run-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def text(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def wait_for(self, condition):
        try:
            workers.wait_until(condition, limit=2 * workers.DEADLINE, pause=0.1)
        except AssertionError as error:
            raise AssertionError("\n".join([self.text("errors.txt"), self.cluster.logs()])) from error

    def unbroken(self, steps):
        """The hash of the same training in two processes of one launcher."""
        front = pathlib.Path(workers.COMMAND).with_name("brigade")
        result = self.cluster.run(front, "launch", "--nproc", 2, "--prefix", "none", "--", *TRAIN, "--steps", steps)
        self.assertEqual(result.returncode, 0, result.stderr)
        return slurm_cluster.last_json(result.stdout)["weights_sha256"]

    def test_srun_starts_one_training_on_both_nodes(self):
        result = self.cluster.run("srun", "--nodes=2", "--ntasks=2", *TRAIN, "--steps", 20)
        self.assertEqual(result.returncode, 0, result.stderr + self.cluster.logs())
        report = slurm_cluster.last_json(result.stdout)
        self.assertEqual((report["workers"], report["steps"]), (2, 20))
        self.assertEqual(report["weights_sha256"], self.unbroken(20))

    def test_a_job_whose_task_is_stopped_is_requeued_and_resumes(self):
        steps = 3000
        model_dir = self.folder / "run"
        script = self.folder / "job.sh"
        script.write_text(SCRIPT.format(folder=self.folder, command=" ".join(
            [*TRAIN, "--steps", str(steps), "--log-every", "0", "--model-dir", str(model_dir)])))
        job = self.cluster.submit(script, "--requeue", "--nodes=2", "--ntasks-per-node=1", "--output=/dev/null",
                                  f"--chdir={self.folder}")
        self.wait_for(lambda: "step 10/" in self.text("errors.txt") or self.text("codes.txt"))
        self.assertEqual(self.text("codes.txt"), "", self.text("errors.txt")[-2000:])
        tasks = self.cluster.tasks_on("node2")
        self.assertEqual(len(tasks), 1)
        os.kill(tasks[0], signal.SIGTERM)
        self.wait_for(lambda: self.text("codes.txt").split()[:1] == ["75"])
        self.wait_for(lambda: len(self.text("codes.txt").split()) == 2)
        self.assertEqual(self.text("codes.txt").split(), ["75", "0"], self.text("errors.txt")[-2000:])
        self.wait_for(lambda: self.cluster.job(job).get("JobState") == "COMPLETED")
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")
        report = slurm_cluster.last_json(self.text("results.txt"))
        self.assertEqual(report["steps"], steps)
        self.assertGreater(report["first_step"], 9)
        self.assertEqual(report["weights_sha256"], self.unbroken(steps))


if __name__ == "__main__":
    unittest.main()

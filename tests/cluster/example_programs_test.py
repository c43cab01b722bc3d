"""The examples that are several processes: the tutorials' own way to start them (one address a task, TF_CONFIG written by the program),
and the launcher's. Each checks itself; here is what only an onlooker sees.

BRIGADE_EXAMPLES names the folder of the programs, BRIGADE_LAUNCHER the command that launches."""
import json
import os
import pathlib
import re
import unittest

from workers import ClusterTest, environment, free_ports

EXAMPLES = pathlib.Path(os.environ["BRIGADE_EXAMPLES"])
LAUNCHER = os.environ["BRIGADE_LAUNCHER"]


class ExamplePrograms(ClusterTest):
    def start_example(self, name, *arguments, **options):
        return self.start_process(*arguments, program=(EXAMPLES / f"example_{name}",), **options)

    def launch(self, flags, name, *arguments):
        """The output of an example below the launcher, which all tasks have ended well."""
        job = self.start_process("launch", *flags, "--grace", 2, "--", EXAMPLES / f"example_{name}", *arguments, program=(LAUNCHER,))
        self.assertEqual(job.wait(), 0, job.lines()[-12:] + [job.output()])
        return job.output()

    def outputs_of(self, processes):
        for process in processes:
            self.assertEqual(process.wait(), 0, process.lines()[-8:] + [process.output()])
        return [process.output() for process in processes]

    def test_slim_on_two_machines(self):
        chief, worker = (f"--{job}=localhost:{port}" for job, port in zip(("chief", "worker"), free_ports(2)))
        outputs = self.outputs_of([self.start_example("slim_workers", f"--task={task}", chief, worker) for task in ("worker", "chief")])
        ends = sorted(re.findall(r"Worker (\d) of 2: (100 steps, loss .*)", "".join(outputs)))
        self.assertEqual([index for index, _ in ends], ["0", "1"], outputs)
        self.assertEqual(ends[0][1], ends[1][1], "both have the loss of all examples")
        self.assertEqual(outputs[0].count("Step"), 0, "only the chief speaks of steps")

    def test_a_tf_config_that_is_set_already_counts(self):
        alone = {"cluster": {"chief": [f"localhost:{free_ports(1)[0]}"]}, "task": {"type": "chief", "index": 0}}
        output, = self.outputs_of([self.start_example("slim_workers", environment=environment(TF_CONFIG=json.dumps(alone)))])
        self.assertIn("Worker 0 of 1: 100 steps", output)

    def test_each_process_reads_its_files(self):
        flags = (f"--data_dir={self.folder / 'fashion_mnist' / '3.0.1'}", "--examples=2000")
        self.outputs_of([self.start_example("slim_records", *flags, "--prepare=4")])
        output = self.launch(("--nproc", 2), "slim_records", *flags)
        self.assertEqual(len(re.findall(r"Worker \d of 2, epoch \d: read 1000 of 2000 records", output)), 6, output)

    def test_a_pipeline_for_each_worker(self):
        workers = "--workers=" + ",".join(f"localhost:{port}" for port in free_ports(2))
        outputs = self.outputs_of([self.start_example("multi_worker_loop", f"--index={index}", workers) for index in (0, 1)])
        self.assertEqual(outputs[0], outputs[1], "metrics are of all workers")
        self.assertIn("Number of devices: 2\n", outputs[0])

    def test_two_of_three_gradients_make_an_update(self):
        output = self.launch(("--ps", 1, "--workers", 3), "sync_replicas", 40)
        self.assertEqual(len(re.findall(r"Worker \d: step 40,", output)), 3, output)
        first, last = map(float, re.search(r"Worker 0: step 40, loss (\S+) to (\S+)", output).groups())
        self.assertLess(last, 0.8 * first)

    def test_devices_synchronously_and_machines_asynchronously(self):
        output = self.launch(("--ps", 2, "--workers", 2), "hybrid", 60)
        self.assertEqual(len(re.findall(r"Worker \d: 2 devices, 2 servers, step 6\d,", output)), 2, output)
        first, last = map(float, re.search(r"Worker 0: .*, loss (\S+) to (\S+)", output).groups())
        self.assertLess(last, 0.8 * first)

    def test_training_and_evaluation_in_processes_and_in_one(self):
        output = self.launch(("--ps", 1, "--workers", 2, "--evaluator"), "train_and_evaluate", self.folder / "cluster", 200)
        self.assertRegex(output, r"\[evaluator:0\] Step 20\d: accuracy 0\.[6-9]")
        output, = self.outputs_of([self.start_example("train_and_evaluate", self.folder / "alone", 200)])
        self.assertRegex(output, r"Step 200: accuracy 0\.[6-9]")


if __name__ == "__main__":
    unittest.main()

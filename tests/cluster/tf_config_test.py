"""Workers started by hand, in a shell each, with the TF_CONFIG of TensorFlow's tutorials."""
import signal
import time
import unittest

from workers import COMMAND, SLACK, SLOWNESS, TINY, WORKERS, ClusterTest, environment, free_ports, tf_config

RUN = (*TINY, "--batch-size", "16", "--steps", "20")
# Two tutorials' own texts; the ports are put in.
TWO_WORKERS = """
{
    "cluster": {
        "worker": ["localhost:12345", "localhost:12346"]
    },
    "task": {"type": "worker", "index": INDEX}
}
"""
CHIEF_AND_WORKER = """{"cluster": {"chief": ["localhost:12345"], "worker": ["localhost:12346"]},
                      "task": {"type": "TYPE", "index": 0}}"""


class TfConfig(ClusterTest):
    def shell(self, config, *arguments):
        """As a user: a shell, in which the variable is exported and the command entered."""
        ports = dict(zip(("12345", "12346"), map(str, self.ports)))
        for old, new in ports.items():
            config = config.replace(old, new)
        script = f"export TF_CONFIG='{config}'\nexec \"$0\" train --strategy multi_worker_mirrored \"$@\""
        return self.start_process(*arguments, program=("sh", "-c", script, COMMAND))

    def setUp(self):
        super().setUp()
        self.ports = free_ports(2)

    def check_pair(self, configs):
        wanted = self.alone("--strategy", "mirrored", "--devices", "cpu:0,cpu:1", *RUN)
        chief, worker = (self.shell(config, *RUN) for config in configs)
        result = chief.result()
        self.assertEqual(worker.wait(), 0, worker.lines())
        self.assertEqual(worker.output(), "", "the result is the chief's to print")
        self.assertEqual((result["workers"], result["replicas"]), (2, 2))
        for key in ("weights_sha256", "final_loss", "steps", "examples"):
            self.assertEqual(result[key], wanted[key])

    def test_two_workers_train_what_two_replicas_train(self):
        self.check_pair([TWO_WORKERS.replace("INDEX", str(index)) for index in range(2)])

    def test_chief_and_worker_too(self):
        self.check_pair([CHIEF_AND_WORKER.replace("TYPE", kind) for kind in ("chief", "worker")])

    def test_the_order_of_starting_does_not_matter(self):
        worker = self.shell(TWO_WORKERS.replace("INDEX", "1"), *RUN)
        time.sleep(0.5)  # it waits for the chief by then, mostly; it must work either way
        chief = self.shell(TWO_WORKERS.replace("INDEX", "0"), *RUN)
        self.assertEqual(chief.result()["workers"], 2)
        self.assertEqual(worker.wait(), 0, worker.lines())

    def test_one_task_or_none_is_one_worker(self):
        wanted = self.alone("--strategy", "one_device", *RUN)["weights_sha256"]
        for more in ({"TF_CONFIG": tf_config(free_ports(1), 0)}, {}):
            with self.subTest(more):
                result = self.start_process("train", *WORKERS, *RUN, environment=environment(**more)).result()
                self.assertEqual((result["workers"], result["weights_sha256"]), (1, wanted))

    def test_a_wrong_one_is_refused_in_one_line(self):
        two = '{"cluster": {"worker": ["localhost:1", "localhost:2"]}, '
        cases = {'{"cluster": ': ("TF_CONFIG",),
                 two + '"task": {"type": "worker", "index": 2}}': ("index", "2"),
                 two + '"task": {"type": "chief", "index": 0}}': ("chief",),
                 '{"cluster": {"worker": ["localhost:1", "localhost:1"]}, "task": {"type": "worker", "index": 0}}':
                     ("localhost:1",)}
        for text, words in cases.items():
            with self.subTest(text):
                process = self.start_process("train", *WORKERS, *RUN, environment=environment(TF_CONFIG=text))
                self.assertEqual(process.wait(), 2, process.lines())
                self.assertEqual(len(process.lines()), 1, process.lines())
                self.assertEqual(process.output(), "")
                for word in words:
                    self.assertIn(word, process.last_line())

    def test_local_strategies_do_not_look_at_it(self):
        process = self.start_process("train", "--strategy", "one_device", *RUN,
                                     environment=environment(TF_CONFIG=tf_config(self.ports, 1)))
        self.assertEqual(process.result()["workers"], 1)


class Start(ClusterTest):
    """Of two workers one never comes."""

    def test_gives_up_after_its_timeout_and_names_who_is_missing(self):
        for present, missing in ((0, 1), (1, 0)):
            with self.subTest(present=present):
                begin = time.monotonic()
                worker = self.start_worker(free_ports(2), present, *RUN, "--start-timeout", "2s")
                self.assertEqual(worker.wait(), 1, worker.lines())
                self.assertGreater(time.monotonic() - begin, 2)
                self.assertIn(f"/job:worker/task:{missing}", worker.last_line())
                self.assertEqual(worker.output(), "")

    def test_sigterm_ends_the_wait_immediately(self):
        worker = self.start_worker(free_ports(2), 0, *RUN)
        time.sleep(1.5 * SLOWNESS)  # to let it wait; it must end at once in any case
        begin = time.monotonic()
        worker.signal(signal.SIGTERM)
        self.assertIn(worker.wait(SLACK), (75, -signal.SIGTERM), worker.lines())
        print(f"SIGTERM while waiting: gone after {time.monotonic() - begin:.2f} s")


if __name__ == "__main__":
    unittest.main()

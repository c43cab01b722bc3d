"""Flags and clusters that cannot work are refused in one line that names them, before anything is written."""
import unittest

from servers import SMALL, Cluster, ServersTest
from workers import environment


class Usage(ServersTest):
    def refuse(self, *arguments, saying, **more):
        process = self.start_process(*arguments, environment=environment(**more))
        self.assertEqual(process.wait(), 2, process.lines())
        self.assertEqual(process.output(), "")
        self.assertEqual(len(process.lines()), 1, process.lines())
        for words in saying:
            self.assertIn(words, process.last_line())

    def test_flags_that_contradict_each_other(self):
        cases = {("--mode", "asynch"): ["--mode", "async"],
                 ("--staleness", "3"): ["--staleness", "ssp"],
                 ("--mode", "sync", "--staleness", "3"): ["--staleness", "sync"],
                 ("--mode", "ssp"): ["--staleness"],
                 ("--mode", "ssp", "--staleness", "-1"): ["--staleness", "-1"],
                 ("--mode", "sync", "--staleness-aware-rate"): ["--staleness-aware-rate", "sync"],
                 ("--backup-workers", "1"): ["--backup-workers", "async"],
                 ("--mode", "sync", "--backup-workers", "1"): ["backup_workers", "1"],
                 ("--push-dtype", "float8"): ["--push-dtype", "bfloat16"],
                 ("--server-timeout", "0"): ["--server-timeout"],
                 ("--server-transport", "gloo"): ["--server-transport", "tcp"],
                 ("--variable-partitioner", "fixed"): ["--variable-partitioner", "fixed:PARTS", "min-size:BYTES"],
                 ("--variable-partitioner", "fixed:0"): ["--variable-partitioner", "fixed:0"],
                 ("--variable-partitioner", "halves:2"): ["--variable-partitioner", "halves:2"],
                 ("--transport", "gloo"): ["--transport", "multi_worker_mirrored"],
                 ("--wire", "bf16"): ["--wire"],
                 ("--controller", "cpu:0"): ["--controller"],
                 ("--auto-shard", "sometimes"): ["--auto-shard", "off"],
                 ("--checkpoint-writers", "all", "--model-dir", self.model_dir): ["--checkpoint-writers"]}
        cluster = Cluster(1, 1)
        for flags, saying in cases.items():
            with self.subTest(flags=flags):
                self.refuse("train", "--strategy", "parameter_server", *SMALL, *flags, "--cluster", cluster.flag(), "--task",
                            "worker:0", saying=saying)
        self.assertFalse(self.model_dir.exists())

    def test_flags_of_servers_need_the_strategy(self):
        for flags in (("--mode", "async"), ("--staleness", "1"), ("--staleness-aware-rate",), ("--backup-workers", "1"), ("--variable-partitioner", "fixed:2"), ("--push-dtype", "bfloat16"), ("--server-timeout", "9"), ("--server-transport", "tcp"), ("--wait-for-disk",)):
            with self.subTest(flags=flags):
                self.refuse("train", *SMALL, *flags, saying=[flags[0], "one_device", "--strategy parameter_server"])

    def test_a_cluster_must_have_servers(self):
        self.refuse("train", "--strategy", "parameter_server", *SMALL, saying=["ps"])
        self.refuse("train", "--strategy", "parameter_server", *SMALL, "--cluster", "worker=localhost:1,localhost:2", "--task",
                    "worker:0", saying=["ps"])

    def test_only_training_has_the_strategy(self):
        self.refuse("bench", "--strategy", "parameter_server", "--model", "mlp", saying=["parameter_server"])

    def test_ps_is_for_a_ps_task(self):
        cluster = Cluster(1, 1)
        self.refuse("ps", saying=["--cluster", "TF_CONFIG"])
        self.refuse("ps", "--cluster", cluster.flag(), "--task", "ps:1", saying=["ps", "1"])
        self.refuse("ps", "--cluster", cluster.flag(), "--task", "worker:0", saying=["/job:worker/task:0", "brigade train"])
        self.refuse("ps", saying=["/job:worker/task:0", "brigade train"], TF_CONFIG=cluster.tf_config("worker", 0))
        self.refuse("ps", "--cluster", cluster.flag(), "--task", "ps:0", "--key-file", self.folder / "none", saying=["none"])


if __name__ == "__main__":
    unittest.main()

"""The same training by other numbers of processes and replicas: one result, up to the order of additions."""
import unittest

from workers import TINY, ClusterTest

# The global batch is the same for all, and does not divide evenly among three.
RUN = (*TINY, "--optimizer", "sgd", "--learning-rate", "0.1", "--global-batch-size", "32", "--steps", "12")


def devices(replicas):
    return ("--devices", ",".join(f"cpu:{i}" for i in range(replicas)))


class Layouts(ClusterTest):
    def test_train_what_one_replica_trains(self):
        wanted = self.alone("--strategy", "one_device", *RUN)
        for workers in (1, 2, 3):
            for replicas in (1, 2):
                with self.subTest(workers=workers, replicas=replicas):
                    # That all workers end with equal weights each of them sees for itself, or ends with 1.
                    result = self.train(workers, *RUN, *devices(replicas))
                    self.assertEqual((result["workers"], result["replicas"]), (workers, workers * replicas))
                    self.assertEqual(result["examples"], wanted["examples"])
                    self.assertAlmostEqual(result["final_loss"], wanted["final_loss"], delta=1e-5)

    def test_bits_do_not_depend_on_how_replicas_are_spread_over_processes(self):
        for replicas, ways in ((4, ((1, 4), (2, 2), (4, 1))), (6, ((2, 3), (3, 2), (1, 6)))):
            hashes = {way: self.train(way[0], *RUN, *devices(way[1]))["weights_sha256"] for way in ways}
            with self.subTest(replicas=replicas):
                self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_bits_do_not_depend_on_how_tensors_travel(self):
        ways = ((), ("--transport", "gloo"), ("--transport", "tcp", "--bytes-per-pack", "1000"), ("--bytes-per-pack", "64"),
                ("--bytes-per-pack", "1"))
        hashes = {way: self.train(2, *RUN, *way)["weights_sha256"] for way in ways}
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_three_processes_over_tcp_have_the_bits_of_shared_memory(self):
        hashes = [self.train(3, *RUN, "--transport", way)["weights_sha256"] for way in ("shared_memory", "gloo")]
        self.assertEqual(*hashes)

    def test_epochs_end_evenly(self):
        # 256 examples in batches of 80 over three workers: the last batch is small.
        run = (*TINY, "--optimizer", "sgd", "--global-batch-size", "80", "--epochs", "2")
        wanted = self.alone("--strategy", "one_device", *run)
        result = self.train(3, *run)
        self.assertEqual((result["examples"], result["steps"]), (wanted["examples"], wanted["steps"]))
        self.assertAlmostEqual(result["final_loss"], wanted["final_loss"], delta=1e-5)


if __name__ == "__main__":
    unittest.main()

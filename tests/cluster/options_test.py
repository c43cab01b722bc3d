"""Workers that were started with other options: refused before the first step, by all of them, with both values."""
import gzip
import struct
import unittest

from workers import COMMAND, TINY, WORKERS, ClusterTest, environment, free_ports, tf_config

RUN = ("--batch-size", "16", "--steps", "20")
SGD = ("--optimizer", "sgd")
# What both have; the flag; the chief's value, the worker's; what the message calls it, and how it shows the values.
CASES = (
    ((), "--model", "mlp", "mnist_cnn", "model", "mlp", "mnist_cnn"),
    ((), "--hidden", "16", "17", "hidden", "[16]", "[17]"),
    (("--model", "mnist_cnn"), "--dropout", "0", "0.5", "dropout", "0.0", "0.5"),
    ((), "--optimizer", "adam", "adamw", "optimizer", "adam", "adamw"),
    ((), "--learning-rate", "0.125", "0.25", "learning_rate", "0.125", "0.25"),
    ((), "--weight-decay", "0", "0.5", "weight_decay", "0.0", "0.5"),
    (SGD, "--momentum", "0.5", "0.75", "momentum", "0.5", "0.75"),
    ((), "--accumulate", "1", "2", "accumulate", "1", "2"),
    ((), "--steps", "20", "21", "steps", "20", "21"),
    ((), "--seed", "0", "1", "seed", "0", "1"),
    ((), "--global-batch-size", "32", "34", "global_batch_size", "32", "34"),
    ((), "--train-examples", "256", "128", "train_examples", "256", "128"),
    ((), "--shuffle-buffer", "64", "32", "shuffle_buffer", "64", "32"),
    ((), "--augment", "none", "random_crop", "augment", "none", "random_crop"),
    ((), "--eval", "none", "end", "--eval", "none", "end"),
    ((), "--eval-every", "5steps", "7steps", "--eval-every", "5steps", "7steps"),
)


def idx_files(folder, first_pixel):
    """MNIST's four files, of 64 examples each, the first of which begins with this pixel."""
    folder.mkdir()
    images = struct.pack(">IIII", 2051, 64, 28, 28) + bytes([first_pixel]) + bytes(64 * 28 * 28 - 1)
    labels = struct.pack(">II", 2049, 64) + bytes(i % 10 for i in range(64))
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return folder


class Options(ClusterTest):
    def check(self, chiefs, workers, name, values):
        """Both end without a result, and name the difference and both values."""
        ports = free_ports(2)
        both = [self.start_worker(ports, index, *arguments) for index, arguments in enumerate((chiefs, workers))]
        for process in both:
            self.assertIn(process.wait(), (1, 2), process.lines()[-8:])
            self.assertEqual(process.output(), "")
            line = process.last_line()
            self.assertTrue(line.startswith("brigade: error: "), line)
            first, second = values
            self.assertIn(f"/job:worker/task:1 has {name} {second} and /job:worker/task:0 has {first}", line)

    def test_each_option(self):
        for more, flag, first, second, name, *values in CASES:
            with self.subTest(flag):
                # The last of two counts.
                arguments = [TINY + RUN[2:] + more + (flag, value) for value in (first, second)]
                if flag != "--global-batch-size":
                    arguments = [each + RUN[:2] for each in arguments]
                self.check(*arguments, name, values)

    def test_epochs(self):
        base = TINY + RUN[:2]
        self.check(base + ("--epochs", "1"), base + ("--epochs", "2"), "epochs", ("1", "2"))
        self.check(base + ("--epochs", "1"), base + ("--steps", "8"), "steps", ("unset", "8"))

    def test_where_checkpoints_lie(self):
        self.check(TINY + RUN + ("--model-dir", self.model_dir), TINY + RUN, "--model-dir", ("given", "none"))
        self.assertFalse((self.model_dir / "run.json").exists(), "nothing has begun")
        both = TINY + RUN + ("--model-dir", self.model_dir)
        self.check(both + ("--save-every", "5steps"), both + ("--save-every", "7steps"), "--save-every",
                   ("5steps", "7steps"))

    def test_data(self):
        data = [idx_files(self.folder / str(pixel), pixel) for pixel in (1, 2)]
        arguments = [TINY + ("--train-examples", "64", "--dataset", "mnist", "--data-dir", each, "--batch-size", "16",
                             "--steps", "2") for each in data]
        ports = free_ports(2)
        for process in [self.start_worker(ports, index, *each) for index, each in enumerate(arguments)]:
            self.assertEqual(process.wait(), 2, process.lines()[-8:])
            self.assertIn("has sha256 of the first examples", process.last_line())

    def test_where_files_lie_and_what_is_logged_may_differ(self):
        same = [idx_files(self.folder / name, 1) for name in ("a", "b")]
        common = TINY + ("--train-examples", "64", "--dataset", "mnist", "--batch-size", "16", "--steps", "2")
        ports = free_ports(2)
        chief = self.start_worker(ports, 0, *common, "--data-dir", same[0], "--log-every", "0")
        worker = self.start_worker(ports, 1, *common, "--data-dir", same[1], "--map-threads", "1")
        self.assertEqual(chief.result()["steps"], 2)
        self.assertEqual(worker.wait(), 0, worker.lines()[-8:])


class Weights(ClusterTest):
    def test_weights_that_differ_at_the_end_fail_the_chief_too(self):
        """One worker computes with other instructions, which round otherwise."""
        ports = free_ports(2)
        both = [self.start_process("train", *WORKERS, *TINY, *RUN,
                                   environment=environment(TF_CONFIG=tf_config(ports, index), **more))
                for index, more in enumerate(({}, {"ATEN_CPU_CAPABILITY": "default"}))]
        codes = [process.wait() for process in both]
        if codes == [0, 0]:
            self.skipTest("all instructions of this machine round alike")
        for code, process in zip(codes, both):
            self.assertEqual(code, 1, process.lines()[-8:])
            self.assertEqual(process.output(), "")
            self.assertIn("has weights_sha256 ", process.last_line())


if __name__ == "__main__":
    unittest.main()

"""Pipelines whose stages are in several processes, and several of them side by side: the bits of one device, what they send, and
what happens when a worker is lost."""
import signal
import time
import unittest

from workers import PEER_TIMEOUT, TINY, ClusterTest, environment, free_ports, tf_config

PIPELINE = ("--strategy", "pipeline")
MLP = (*TINY, "--hidden", "24,24,24", "--seed", "3")
CNN = ("--model", "mnist_cnn", "--dropout", "0.5", "--dataset", "synthetic", "--train-examples", "64", "--steps", "3",
       "--threads-per-replica", "1", "--allow-oversubscription", "--json")
RESNET = ("--model", "cifar_resnet20", "--image-size", "8", "--dataset", "synthetic", "--train-examples", "64", "--steps", "2",
          "--threads-per-replica", "1", "--allow-oversubscription", "--eval", "none", "--json")
RESUMED = (*TINY, "--hidden", "64,64,64", "--train-examples", "512", "--steps", "60", "--save-every", "10steps",
           "--log-every", "0", "--peer-timeout", f"{PEER_TIMEOUT}s", "--optimizer", "adam")


class PipelineWorkers(ClusterTest):
    def start_worker(self, ports, index, *arguments):
        return self.start_process("train", *PIPELINE, *arguments, environment=environment(TF_CONFIG=tf_config(ports, index)))

    def of_one_device(self, micro_batches, *run):
        return self.alone("--strategy", "one_device", "--logical-replicas", micro_batches, *run)

    def check_bits(self, workers, cut, micro_batches, *run, pipeline=()):
        result = self.train(workers, "--cut", cut, "--micro-batches", micro_batches, *pipeline, *run)
        wanted = self.of_one_device(micro_batches, *run)
        for key in ("weights_sha256", "final_loss", "eval_accuracy", "eval_loss", "steps", "examples"):
            self.assertEqual(result[key], wanted[key], key)
        self.assertEqual(result["workers"], workers)
        return result

    def test_two_workers_have_the_bits_of_one_device(self):
        for name, cut, micro_batches, run in (
                ("clipped mlp", "dense3", 5, (*MLP, "--global-batch-size", "44", "--steps", "12", "--clip-norm", "0.5",
                                              "--optimizer", "adam")),
                ("fp16", "dense3", 4, (*MLP, "--global-batch-size", "44", "--steps", "6", "--precision", "fp16")),
                ("cnn with dropout", "conv2", 4, (*CNN, "--global-batch-size", "28", "--ema", "0.9")),
                ("batch norm", "block2/unit_1", 4, (*RESNET, "--global-batch-size", "28", "--optimizer", "sgd",
                                                    "--momentum", "0.9", "--ema", "0.9"))):
            with self.subTest(model=name):
                self.check_bits(2, cut, micro_batches, *run)

    def test_three_workers_and_tcp_have_them(self):
        self.check_bits(3, "dense2,dense4", 6, *MLP, "--global-batch-size", "44", "--steps", "6",
                        pipeline=("--transport", "tcp", "--pipeline-schedule", "gpipe"))

    def test_several_stages_on_each_device_have_them(self):
        for workers, cut, run in ((2, "dense2,dense3,dense4", (*MLP, "--clip-norm", "0.5", "--optimizer", "adam")),
                                  (4, "dense2,dense3,dense4", (*MLP, "--optimizer", "adam"))):
            with self.subTest(workers=workers):
                self.check_bits(workers, cut, 6, *run, "--global-batch-size", "44", "--steps", "8",
                                pipeline=("--pipeline-schedule", "interleaved", *(("--replicas", "2") if workers == 4 else ())))

    def test_stages_times_replicas_have_the_bits_of_one_device(self):
        for name, cut, micro_batches, run in (
                ("clipped mlp", "dense3", 5, (*MLP, "--global-batch-size", "44", "--steps", "12", "--clip-norm", "0.5",
                                              "--optimizer", "adam")),
                ("cnn with dropout", "conv2", 4, (*CNN, "--global-batch-size", "28", "--ema", "0.9")),
                ("batch norm", "block2/unit_1", 4, (*RESNET, "--global-batch-size", "28", "--optimizer", "sgd",
                                                    "--momentum", "0.9", "--ema", "0.9"))):
            with self.subTest(model=name):
                result = self.check_bits(4, cut, micro_batches, *run, pipeline=("--replicas", "2"))
                self.assertEqual((result["pipeline_replicas"], result["replicas"]), (2, micro_batches))

    def test_workers_agree_on_an_automatic_cut(self):
        run = (*MLP, "--global-batch-size", "44", "--steps", "8")
        wanted = self.of_one_device(4, *run)
        for workers, flags in ((2, ()), (4, ("--replicas", "2"))):
            with self.subTest(workers=workers):
                result = self.train(workers, "--cut", "auto", "--micro-batches", "4", *flags, *run)
                self.assertEqual(result["weights_sha256"], wanted["weights_sha256"])
                self.assertEqual(len(result["cut"]), 1)
                self.assertEqual(len(result["stage_milliseconds"]), 2)
                self.assertGreater(result["stage_bytes_sent"], 0)

    def test_same_stages_send_the_sums_of_their_gradients_and_nothing_else(self):
        hidden, steps = 512, 6
        run = ("--model", "mlp", "--hidden", f"{hidden},{hidden}", "--dataset", "synthetic", "--train-examples", "64", "--steps",
               steps, "--batch-size", "8", "--eval", "none", "--allow-oversubscription", "--transport", "tcp", "--json")
        result = self.train(4, "--cut", "dense2", "--micro-batches", "4", "--replicas", "2", *run)
        # Of the first stage: half of the values to the other one, and the sums of the other half.
        gradients = steps * (784 * hidden + hidden) * 4
        self.assertGreaterEqual(result["reduction_bytes_sent"], gradients)
        # At the start both compare their variables, which are sent to nobody by the last of them.
        weights = (784 * hidden + hidden + hidden * hidden + hidden + hidden * 10 + 10) * 4
        self.assertLessEqual(result["reduction_bytes_sent"], 1.02 * gradients + weights)

    def test_a_worker_sends_activations_and_nothing_else(self):
        micro_batches, size, steps, hidden = 4, 64, 6, 256
        run = ("--model", "mlp", "--hidden", f"{hidden},{hidden}", "--dataset", "synthetic", "--train-examples",
               micro_batches * size, "--steps", steps, "--batch-size", size, "--eval", "none", "--allow-oversubscription", "--json")
        result = self.train(2, "--cut", "dense2", "--micro-batches", micro_batches, *run)
        activations = steps * micro_batches * size * hidden * 4
        self.assertGreaterEqual(result["stage_bytes_sent"], activations)
        self.assertLessEqual(result["stage_bytes_sent"], 1.02 * activations)

    def test_a_killed_stage_is_named_and_the_job_resumes_with_the_same_bits(self):
        run = (*RESUMED, "--micro-batches", "4", "--batch-size", "6", "--cut", "dense3")
        wanted = self.of_one_device(4, *RESUMED, "--batch-size", "6", "--model-dir", self.folder / "alone")
        for victim in (0, 1):
            with self.subTest(victim=victim):
                folder = self.folder / f"without-{victim}"
                workers = self.start(2, *run, "--model-dir", folder)
                workers[0].wait_for(r"^step 2\d/")
                workers[victim].signal(signal.SIGKILL)
                took = self.assert_name([workers[1 - victim]], victim, time.monotonic())
                print(f"stage {victim}: the other had ended after {took:.2f} s", flush=True)
                result = self.train(2, *run, "--model-dir", folder)
                for key in ("weights_sha256", "final_loss", "steps", "examples"):
                    self.assertEqual(result[key], wanted[key], key)
                self.assertGreaterEqual(result["first_step"], 10)

    def test_a_killed_worker_of_several_pipelines_is_named_and_the_job_resumes_with_the_same_bits(self):
        run = (*RESUMED, "--micro-batches", "4", "--batch-size", "6", "--cut", "dense3", "--replicas", "2")
        wanted = self.of_one_device(4, *RESUMED, "--batch-size", "6", "--model-dir", self.folder / "alone")
        victim, folder = 3, self.folder / "without-3"
        workers = self.start(4, *run, "--model-dir", folder)
        workers[0].wait_for(r"^step 2\d/")
        workers[victim].signal(signal.SIGKILL)
        took = self.assert_name(workers[:victim], victim, time.monotonic())
        print(f"worker {victim}: the others had ended after {took:.2f} s", flush=True)
        result = self.train(4, *run, "--model-dir", folder)
        for key in ("weights_sha256", "final_loss", "steps", "examples"):
            self.assertEqual(result[key], wanted[key], key)
        self.assertGreaterEqual(result["first_step"], 10)

    def test_its_checkpoint_resumes_on_one_device(self):
        run = (*MLP, "--train-examples", "440", "--micro-batches", "4", "--batch-size", "11", "--cut", "dense3", "--optimizer",
               "adam")
        wanted = self.of_one_device(4, *MLP, "--train-examples", "440", "--batch-size", "11", "--optimizer", "adam", "--steps", "8")
        for workers, more in ((2, ()), (4, ("--replicas", "2"))):
            with self.subTest(workers=workers):
                folder = self.folder / f"of-{workers}"
                self.train(workers, *run, *more, "--steps", "4", "--model-dir", folder)
                result = self.of_one_device(4, *MLP, "--train-examples", "440", "--batch-size", "11", "--optimizer", "adam",
                                            "--steps", "8", "--model-dir", self.folder / f"on-{workers}", "--resume", folder)
                self.assertEqual(result["weights_sha256"], wanted["weights_sha256"])

    def check_refused(self, text, *arguments, workers=2):
        ports = free_ports(workers)
        process = self.start_worker(ports, 0, *MLP, "--steps", "2", *arguments)
        self.assertEqual(process.wait(), 2, process.lines())
        self.assertIn(text, process.last_line())

    def test_what_several_workers_cannot_do_is_refused(self):
        self.check_refused("--replicas is 3, and there are 4 workers", "--cut", "dense2", "--replicas", "3", workers=4)
        self.check_refused("--micro-batches is 1, and --replicas 2", "--replicas", "2", "--micro-batches", "1", workers=4)
        self.check_refused("has equally many in each", "--cut", "dense2,dense3")
        self.check_refused("has equally many in each, 2 on each device", "--cut", "dense2,dense3", "--pipeline-schedule",
                           "interleaved")
        self.check_refused("leave out --wire", "--cut", "dense2", "--wire", "bf16")


if __name__ == "__main__":
    unittest.main()

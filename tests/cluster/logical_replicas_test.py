"""Trainings with logical replicas: the same bits on any number of devices and processes."""
import os
import shutil
import signal
import unittest

from workers import TINY, ClusterTest, environment, free_ports, tf_config

MLP = (*TINY, "--global-batch-size", "44", "--steps", "12", "--seed", "3")
CNN = ("--model", "mnist_cnn", "--dropout", "0.5", "--dataset", "synthetic", "--train-examples", "64", "--global-batch-size",
       "28", "--steps", "3", "--threads-per-replica", "1", "--allow-oversubscription", "--eval", "none", "--json")

RESNET = ("--model", "cifar_resnet20", "--image-size", "8", "--dataset", "synthetic", "--train-examples", "64",
          "--global-batch-size", "28", "--steps", "2", "--threads-per-replica", "1", "--allow-oversubscription", "--eval", "none",
          "--json")


def devices(count):
    return ("--devices", ",".join(f"cpu:{i}" for i in range(count)))


class LogicalReplicas(ClusterTest):
    def results(self, run, logical, layouts, *more):
        """What a training has ended with, by layout: (workers, devices of each)."""
        found = {}
        for workers, each in layouts:
            arguments = (*run, "--logical-replicas", logical, *devices(each))
            if workers == 1:
                result = self.alone("--strategy", "one_device" if each == 1 else "mirrored", *arguments)
            else:
                result = self.train(workers, *arguments, *more)
            self.assertEqual(result["replicas"], logical)
            found[workers, each] = (result["weights_sha256"], result["final_loss"])
        return found

    def assert_equal(self, results):
        self.assertEqual(len(set(results.values())), 1, results)

    def test_layouts_have_the_same_bits(self):
        layouts = ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1))
        for name, run in (("mlp", (*MLP, "--optimizer", "adam", "--clip-norm", "0.5")), ("cnn", CNN)):
            for logical in (4, 6):
                with self.subTest(model=name, logical=logical):
                    self.assert_equal(self.results(run, logical, layouts))

    @unittest.skipUnless(os.environ.get("BRIGADE_SLOW_TESTS"), "takes minutes; BRIGADE_SLOW_TESTS=1 runs it")
    def test_all_layouts_and_transports_have_the_same_bits(self):
        runs = {"mlp, momentum": (*MLP, "--optimizer", "sgd", "--momentum", "0.9"),
                "mlp, adam, clipping": (*MLP, "--optimizer", "adam", "--clip-norm", "0.5"),
                "cnn, dropout, adam": CNN,
                "cnn, batch norm, momentum": (*RESNET, "--optimizer", "sgd", "--momentum", "0.9")}
        for name, run in runs.items():
            for logical in (4, 6, 8):
                with self.subTest(run=name, logical=logical):
                    layouts = [(workers, each) for workers in range(1, 5) for each in range(1, 5) if workers * each <= logical]
                    found = self.results(run, logical, [layout for layout in layouts if layout[0] == 1])
                    for transport in ("shared_memory", "gloo"):
                        more = self.results(run, logical, [layout for layout in layouts if layout[0] > 1], "--transport", transport)
                        found.update({(transport, *layout): result for layout, result in more.items()})
                    self.assert_equal(found)

    def test_transports_have_the_same_bits(self):
        run = (*MLP, "--optimizer", "sgd", "--momentum", "0.9")
        found = self.results(run, 6, ((1, 1),))
        for transport in ("shared_memory", "gloo"):
            more = self.results(run, 6, ((2, 2), (3, 1), (4, 1)), "--transport", transport)
            found.update({(transport, *layout): result for layout, result in more.items()})
        self.assert_equal(found)

    def test_workers_of_two_replicas_have_the_bits_of_one_process(self):
        alone = self.alone("--strategy", "mirrored", *MLP, *devices(4))
        together = self.train(2, *MLP, *devices(2))
        self.assertEqual(together["weights_sha256"], alone["weights_sha256"])

    def test_audits_leave_no_trace(self):
        for name, run in (("mlp", (*MLP, "--optimizer", "adam", "--clip-norm", "0.5")), ("cnn", CNN)):
            with self.subTest(model=name):
                plain = self.results(run, 4, ((2, 1),))
                audited = self.results((*run, "--audit-every", "1"), 4, ((2, 1), (2, 2), (3, 1)))
                self.assert_equal({**plain, **{("audited", *layout): result for layout, result in audited.items()}})

    def test_audits_that_differ_are_refused(self):
        ports = free_ports(2)
        run = (*MLP, "--logical-replicas", "4", "--audit-every")
        workers = [self.start_worker(ports, index, *run, 2 + index) for index in range(2)]
        for worker in workers:
            self.assertNotEqual(worker.wait(), 0)
            self.assertIn("audit_every", worker.last_line())

    def test_audits_without_what_they_compare_are_refused(self):
        for strategy, more, reason in (("mirrored", ("--logical-replicas", 2), "has no second worker"),
                                       ("multi_worker_mirrored", (), "only with logical replicas")):
            with self.subTest(strategy=strategy):
                process = self.start_process("train", "--strategy", strategy, *MLP, "--audit-every", 2, *more)
                self.assertEqual(process.wait(), 2)
                self.assertIn(reason, process.last_line())

    def test_a_training_resumes_on_any_layout_without_a_warning(self):
        run = (*CNN, "--steps", "9", "--logical-replicas", "4")
        wanted = self.alone("--strategy", "one_device", *run)["weights_sha256"]
        resumed = (*run, "--save-every", "1step", "--log-every", "0", "--model-dir", self.model_dir)
        first = self.start_process("train", "--strategy", "mirrored", *resumed, *devices(2))
        first.wait_for(r"step 2/")
        first.signal(signal.SIGKILL)
        first.wait()
        workers = self.start(3, *resumed)
        workers[0].wait_for(r"step 5/")
        for worker in workers:
            worker.signal(signal.SIGKILL)
        for worker in workers:
            worker.wait()
            self.assertNotIn("bit-identical", "\n".join(worker.lines()))
        last = self.start_process("train", "--strategy", "one_device", *resumed)
        self.assertEqual(last.result()["weights_sha256"], wanted)
        self.assertNotIn("bit-identical", "\n".join(last.lines()))

    def test_another_number_resumes_with_a_warning(self):
        run = (*MLP, "--strategy", "one_device", "--model-dir", self.model_dir, "--save-every", "4steps")
        self.alone(*run, "--logical-replicas", "4")
        os.remove(self.model_dir / "weights.safetensors")
        shutil.rmtree(max((self.model_dir / "checkpoints").glob("ckpt-*"), key=lambda path: int(path.name[5:])))
        process = self.start_process("train", *run, "--logical-replicas", "5")
        process.result()
        self.assertIn("bit-identical", "\n".join(process.lines()))

    def test_the_fingerprint_differs_where_the_weights_do(self):
        def under(**variables):
            run = ("train", "--strategy", "one_device", *CNN)
            trained = self.start_process(*run, environment=environment(**variables)).result()["weights_sha256"]
            shown = self.start_process("devices", "--json", environment=environment(**variables)).result()
            return trained, shown["arithmetic_fingerprint"]

        weights, fingerprint = under()
        capped = ({"ATEN_CPU_CAPABILITY": "default"}, {"ATEN_CPU_CAPABILITY": "avx2"}, {"ONEDNN_MAX_CPU_ISA": "SSE41"},
                  {"ONEDNN_MAX_CPU_ISA": "AVX2"}, {"MKL_CBWR": "COMPATIBLE"}, {"MKL_CBWR": "AVX2"}, {"BRIGADE_MATH_DISPATCH": "off"})
        differ = 0
        for variables in capped:
            with self.subTest(variables=variables):
                other_weights, other_fingerprint = under(**variables)
                self.assertEqual(other_fingerprint == fingerprint, other_weights == weights)
                differ += other_weights != weights
        self.assertGreater(differ, 0, "no cap changed a bit: the comparison proved nothing")

    def test_workers_with_other_arithmetic_are_refused(self):
        run = (*MLP, "--logical-replicas", "2")
        ports = free_ports(2)
        first = self.start_worker(ports, 0, *run)
        second = self.start_process("train", "--strategy", "multi_worker_mirrored", *run,
                                    environment=environment(TF_CONFIG=tf_config(ports, 1), ATEN_CPU_CAPABILITY="default",
                                                            ONEDNN_MAX_CPU_ISA="SSE41"))
        for process in (first, second):
            self.assertNotEqual(process.wait(), 0)
            self.assertIn("compute with other bits", process.last_line())
            self.assertIn("/job:worker/task:1", process.last_line())

    def test_workers_with_other_numbers_are_refused(self):
        ports = free_ports(2)
        workers = [self.start_worker(ports, index, *MLP, "--logical-replicas", 4 + index) for index in range(2)]
        for worker in workers:
            self.assertNotEqual(worker.wait(), 0)
            self.assertIn("logical_replicas", worker.last_line())

    def test_fewer_than_devices_are_refused(self):
        process = self.start_process("train", "--strategy", "mirrored", *MLP, *devices(3), "--logical-replicas", 2)
        self.assertEqual(process.wait(), 2)
        self.assertIn("logical_replicas is 2 and there are 3 devices", process.last_line())


if __name__ == "__main__":
    unittest.main()

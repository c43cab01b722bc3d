"""`--strategy pipeline`: cuts that are named or chosen, weights as on one device, kills, and what is refused."""
import json
import os
import subprocess
import time
import unittest

from brigade_process import DEADLINE, FRONT, CommandTest, run, started

DATA = ("--dataset", "synthetic", "--train-examples", "96", "--global-batch-size", "24")
QUIET = ("--eval", "none", "--json", "--allow-oversubscription")
MLP = ("--model", "mlp", "--hidden", "20,16,12", *DATA)
CNN = ("--model", "mnist_cnn", "--dropout", "0.5", *DATA)
RESNET = ("--model", "cifar_resnet20", "--image-size", "8", *DATA)
PIPELINE = ("--strategy", "pipeline", "--micro-batches", "4")
LAYERS = ("dense1", "dense2", "dense3", "dense4")


def devices(count):
    return ("--devices", ",".join(f"cpu:{i}" for i in range(count)))


class Pipeline(CommandTest):
    def train(self, *arguments):
        return self.succeed("train", *arguments, *QUIET)

    def on_one_device(self, *arguments):
        return self.train("--strategy", "one_device", "--logical-replicas", "4", *arguments)

    def test_every_cut_has_the_weights_of_one_device(self):
        run_of = (*MLP, "--steps", "8", "--clip-norm", "0.5")
        wanted = self.on_one_device(*run_of)
        for flags, cut, stages in (((*devices(2), "--cut", "dense3"), ["dense3"], 2),
                                   (("--cut", "dense2, dense4", "--pipeline-schedule", "gpipe"), ["dense2", "dense4"], 3),
                                   (devices(3), None, 3),
                                   ((*devices(4), "--cut", "auto", "--pipeline-schedule", "1f1b"), list(LAYERS[1:]), 4)):
            with self.subTest(flags=flags):
                report = self.train(*PIPELINE, *run_of, *flags)
                self.assertEqual((report["weights_sha256"], report["final_loss"]), (wanted["weights_sha256"], wanted["final_loss"]))
                self.assertEqual(report["devices"], [f"cpu:{i}" for i in range(stages)])
                self.assertEqual((report["strategy"], report["micro_batches"], report["replicas"]), ("pipeline", 4, 4))
                self.assertEqual(len(report["cut"]), stages - 1)
                if cut:
                    self.assertEqual(report["cut"], cut)
                self.assertLessEqual(set(report["cut"]), set(LAYERS[1:]))

    def test_interleaved_stages_have_the_weights_of_one_device(self):
        run_of = (*MLP, "--steps", "8")
        wanted = self.on_one_device(*run_of)
        report = self.train(*PIPELINE, *run_of, *devices(2), "--cut", ",".join(LAYERS[1:]), "--pipeline-schedule", "interleaved",
                            "--chunks", "2")
        self.assertEqual((report["weights_sha256"], report["final_loss"]), (wanted["weights_sha256"], wanted["final_loss"]))
        self.assertEqual(report["devices"], ["cpu:0", "cpu:1", "cpu:0", "cpu:1"])
        self.assertEqual(report["pipeline_schedule"], "interleaved")
        self.assertEqual(len(report["peak_live_micro_batches"]), 2)
        self.assertLessEqual(report["peak_live_micro_batches"][0], 5)

    def test_what_an_automatic_cut_reports(self):
        result = run("train", *PIPELINE, *CNN, *devices(2), "--steps", "6", *QUIET)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["pipeline_schedule"], "1f1b")
        for peak, of_1f1b in zip(report["peak_live_micro_batches"], (2, 1), strict=True):
            self.assertIn(peak, range(of_1f1b, of_1f1b + 3))  # two more for gradients of weights that are left for later
        costs = report["stage_milliseconds"]
        self.assertEqual(len(costs), 2)
        total = sum(sum(stage.values()) for stage in costs)
        self.assertGreater(min(stage[way] for stage in costs for way in ("forward", "backward")), 0)
        # Four micro-batches on two devices, of which an idle one may compute weight gradients of the other's stage.
        self.assertGreater(report["predicted_step_milliseconds"], 4 * total / 2)
        self.assertLess(report["predicted_step_milliseconds"], 12 * total)
        self.assertRegex(result.stderr, rf"pipeline: cut before {report['cut'][0]}: stages of [0-9.]+ ms and [0-9.]+ ms per "
                                        r"micro-batch \([0-9.]+ ms and [0-9.]+ ms of it on any idle stage\); predicted step [0-9.]+ ms")
        named = self.train(*PIPELINE, *CNN, "--cut", "conv2", "--steps", "1", "--pipeline-schedule", "gpipe")
        self.assertEqual((named["stage_milliseconds"], named["predicted_step_milliseconds"]), (None, None))
        self.assertEqual(named["peak_live_micro_batches"], [4, 4])

    def test_a_profile_has_a_row_for_each_stage(self):
        self.train(*PIPELINE, *MLP, "--cut", "dense3", "--steps", "4", "--profile-steps", "3:4", "--model-dir", self.model_dir)
        [path] = (self.model_dir / "profile").iterdir()
        trace = json.loads(path.read_text())
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        names = [event["args"]["name"] for event in events if event["ph"] == "M"]
        self.assertLessEqual({"pipeline", "stage 0", "stage 1"}, set(names))
        passes = [event["name"] for event in events if event["ph"] == "X"]
        for micro_batch in range(4):  # in two stages of two steps
            for direction in ("forward", "backward"):
                self.assertEqual(passes.count(f"{direction} {micro_batch}"), 4, direction)

    def test_four_micro_batches_a_stage_are_the_default(self):
        report = self.train("--strategy", "pipeline", *MLP, *devices(2), "--steps", "1")
        self.assertEqual(report["micro_batches"], 8)

    def wait_for_checkpoint(self, process, beyond):
        folder = self.model_dir / "checkpoints"
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and process.poll() is None:
            found = os.listdir(folder) if folder.exists() else []
            if any(name.startswith("ckpt-") and int(name[5:]) > beyond for name in found):
                return
            time.sleep(0.002)  # only to look again; nothing depends on its length

    def test_a_killed_run_resumes_bit_for_bit(self):
        for name, training in (("cnn", (*CNN, "--epochs", "3", "--shuffle-buffer", "50")), ("resnet", (*RESNET, "--epochs", "3"))):
            for cut in ("auto", {"cnn": "dense1", "resnet": "block2/unit_1"}[name]):
                with self.subTest(model=name, cut=cut):
                    command = (*PIPELINE, *training, *devices(2), "--cut", cut, *QUIET)
                    wanted = self.succeed("train", *command)
                    self.model_dir = self.folder / f"{name}-{cut == 'auto'}"
                    saving = (*command, "--save-every", "1step", "--model-dir", self.model_dir)
                    for beyond in (0, 3, 6):  # while layers are measured, and later
                        with started("train", *saving) as process:
                            self.wait_for_checkpoint(process, beyond)
                            process.kill()
                    report = self.succeed("train", *saving)
                    self.assertEqual((report["steps"], report["examples"]), (wanted["steps"], wanted["examples"]))
                    # A checkpoint of the ResNet has the mean of the replicas' statistics, on which the training does not depend.
                    self.assertEqual(report["final_loss"], wanted["final_loss"])
                    if name == "cnn":
                        self.assertEqual(report["weights_sha256"], wanted["weights_sha256"])

    def test_a_run_moves_to_one_device_and_back(self):
        wanted = self.on_one_device(*CNN, "--steps", "9")["weights_sha256"]
        base = (*CNN, "--model-dir", self.model_dir)
        self.train(*PIPELINE, *base, *devices(2), "--steps", "3")
        self.on_one_device(*base, "--steps", "5")
        report = self.train(*PIPELINE, *base, "--cut", "conv2,dense1", "--pipeline-schedule", "gpipe", "--steps", "9")
        self.assertEqual((report["first_step"], report["weights_sha256"]), (5, wanted))

    def test_a_trained_model_is_evaluated(self):
        trained = self.succeed("train", *PIPELINE, *MLP, *devices(2), "--steps", "6", "--eval-every", "2steps", "--model-dir",
                               self.model_dir, "--json", "--allow-oversubscription")
        self.assertEqual([point["step"] for point in trained["evaluations"]], [2, 4, 6])
        self.assertEqual(trained["peak_live_micro_batches"], [2, 1])
        for strategy in (("--strategy", "one_device"), (*PIPELINE, "--cut", "dense2")):
            evaluated = self.succeed("evaluate", "--model-dir", self.model_dir, *strategy, "--allow-oversubscription", "--json")
            self.assertAlmostEqual(trained["eval_accuracy"], evaluated["eval_accuracy"], places=6)


class Refusals(CommandTest):
    def refuse_pipeline(self, *arguments, saying):
        self.refuse_training("--strategy", "pipeline", *MLP, "--allow-oversubscription", *arguments, saying=saying)

    def test_the_learning_rate_has_another_flag(self):
        for name in ("1f1b", "gpipe"):
            self.refuse_pipeline("--cut", "dense2", "--schedule", name, saying=["--schedule", f"give --pipeline-schedule {name}"])
            self.refuse_training(*MLP, "--schedule", name, saying=[f"give --pipeline-schedule {name}"])

    def test_unknown_layers_and_schedules(self):
        self.refuse_pipeline("--cut", "dense22", saying=["'dense22'", "did you mean 'dense2'?", "dense1, dense2, dense3, dense4"])
        self.refuse_pipeline("--cut", "dense1", saying=["'dense1'", "begins", "dense1, dense2"])
        self.refuse_pipeline("--cut", "dense3,dense2", saying=["'dense2'", "order of the model"])
        self.refuse_pipeline("--cut", "dense3,dense3", saying=["each once"])
        self.refuse_pipeline("--cut", "dense2", "--pipeline-schedule", "1f1", saying=["did you mean '1f1b'?", "gpipe"])
        self.refuse_pipeline("--cut", "dense2", "--micro-batches", "0", saying=["--micro-batches is 0"])

    def test_chunks_that_do_not_fit(self):
        interleaved = ("--pipeline-schedule", "interleaved")
        self.refuse_pipeline("--cut", "dense2", "--chunks", "2", saying=["--chunks", "interleaved", "1f1b"])
        self.refuse_pipeline("--cut", "dense2", *interleaved, "--chunks", "1", saying=["--chunks is 1"])
        self.refuse_pipeline(*devices(2), *interleaved, saying=["interleaved", "--cut"])
        self.refuse_pipeline("--cut", "dense2,dense3", *devices(2), *interleaved, saying=["2 layers", "2 devices", "2 stages each"])
        self.refuse_pipeline("--cut", "dense2,dense3", *interleaved, saying=["2 layers", "2 stages each"])
        self.refuse_training(*MLP, *interleaved, saying=["--pipeline-schedule", "--strategy pipeline"])

    def test_cuts_that_do_not_fit_the_devices(self):
        self.refuse_pipeline(saying=["needs --devices", "--cut"])
        self.refuse_pipeline("--cut", "auto", saying=["needs --devices", "--cut"])
        self.refuse_pipeline("--cut", "dense2", *devices(3), saying=["3 devices", "1 layer", "--cut auto"])
        self.refuse_pipeline(*devices(5), saying=["5 devices", "has 4"])
        self.refuse_pipeline(*devices(2), "--replicas", "2", saying=["--replicas is 2", "there is 1 worker"])

    def test_what_a_pipeline_has_not(self):
        self.refuse_pipeline("--devices", "cpu:0,gpu:0", saying=["CPUs", "gpu:0", "--strategy mirrored"])
        self.refuse_pipeline("--devices", "gpu:0,gpu:1", saying=["CPUs", "gpu:0", "--strategy mirrored"])
        two = ("--cut", "dense2")
        self.refuse_pipeline(*two, "--logical-replicas", "4", saying=["--logical-replicas", "--micro-batches"])
        self.refuse_pipeline(*two, "--controller", "cpu:0", saying=["--controller"])
        self.refuse_pipeline(*two, "--audit-every", "2", saying=["--audit-every"])
        self.refuse_pipeline(*two, "--transport", "gloo", saying=["--transport"])
        self.refuse_pipeline(*two, "--mode", "sync", saying=["--mode"])

    def test_its_flags_are_for_no_other_strategy(self):
        for strategy in ("one_device", "mirrored", "towers", "parameter_server"):
            for flag in (("--cut", "auto"), ("--micro-batches", "4"), ("--pipeline-schedule", "gpipe"), ("--replicas", "2")):
                with self.subTest(strategy=strategy, flag=flag):
                    self.refuse_training(*MLP, "--strategy", strategy, *flag, saying=[flag[0], "--strategy pipeline"])

    def test_launched_processes_have_the_bits_of_one(self):
        command = ["train", "--strategy", "pipeline", *MLP, "--cut", "dense2", "--allow-oversubscription", "--eval", "none", "--json"]
        alone = self.succeed(*command)
        launched = subprocess.run([FRONT, "launch", "-n", "2", "--prefix", "none", "--", FRONT, *command], capture_output=True,
                                  text=True, timeout=DEADLINE)
        self.assertEqual(launched.returncode, 0, launched.stderr)
        result = json.loads(launched.stdout.splitlines()[-1])
        self.assertEqual(result["workers"], 2)
        self.assertEqual(result["weights_sha256"], alone["weights_sha256"])


if __name__ == "__main__":
    unittest.main()

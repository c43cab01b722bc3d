"""`--precision`, `--numerics` and `--compile` of `brigade train`, `evaluate` and `bench`."""
import json
import pathlib
import re
import sys
import unittest

from brigade_process import MLP, SMALL, CommandTest, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import gpu_steps

TWO = ("--strategy", "mirrored", "--devices", "cpu:0,cpu:1", "--allow-oversubscription")


class Precision(CommandTest):
    def train(self, *arguments):
        length = () if "--steps" in arguments else ("--epochs", "1")
        return self.succeed("train", *MLP, *length, "--json", *arguments)

    def test_low_precision_trains_other_weights_as_well(self):
        reports = [self.train(*TWO, *flags) for flags in ((), ("--precision", "full"), ("--precision", "bf16"),
                                                          ("--precision", "fp16"))]
        self.assertEqual([report["precision"] for report in reports], ["full", "full", "bf16", "fp16"])
        self.assertEqual(len({report["weights_sha256"] for report in reports}), 3)
        for report in reports:
            self.assertAlmostEqual(report["final_loss"], reports[0]["final_loss"], delta=0.1)
            self.assertAlmostEqual(report["eval_loss"], reports[0]["eval_loss"], delta=0.1)

    def test_weights_are_float_and_evaluated_in_any_precision(self):
        self.train("--precision", "bf16", "--model-dir", self.model_dir)
        found = json.loads(run("inspect", self.model_dir / "weights.safetensors", "--json").stdout)
        self.assertEqual({entry["dtype"] for entry in found["tensors"]}, {"float32"})
        for precision in ("full", "bf16", "fp16"):
            self.succeed("evaluate", *MLP, "--model-dir", self.model_dir, "--precision", precision, "--json")

    def test_resuming_in_fp16_repeats_to_the_bit(self):
        flags = ("--precision", "fp16", "--shuffle-buffer", "64")
        whole = self.train(*flags, "--steps", "12")
        part = ("--model-dir", self.model_dir, "--save-every", "2steps")
        self.train(*flags, *part, "--steps", "5")
        resumed = self.train(*flags, *part, "--steps", "12")
        self.assertEqual(resumed["first_step"], 5)
        self.assertEqual(resumed["weights_sha256"], whole["weights_sha256"])

    def test_a_run_keeps_its_precision(self):
        flags = ("--model-dir", self.model_dir)
        self.train(*flags, "--steps", "2")
        self.refuse("train", *MLP, *flags, "--steps", "4", "--precision", "bf16", saying=["precision"])

    def test_an_unknown_precision_is_refused(self):
        self.refuse_training(*MLP, "--precision", "bf6", saying=["--precision", "bf16", "fp16"])

    def test_synchronous_parameter_servers_refuse_fp16(self):
        self.refuse_training(*MLP, "--strategy", "parameter_server", "--mode", "sync", "--precision", "fp16",
                             saying=["--precision fp16", "--mode sync"])

    def test_bench_measures_it(self):
        report = self.succeed("bench", "--model", "mlp", "--precision", "bf16", "--steps", "2", "--json")
        self.assertEqual(report["precision"], "bf16")


class Numerics(CommandTest):
    def train(self, *arguments):
        length = () if "--steps" in arguments else ("--epochs", "1")
        return self.succeed("train", *MLP, *length, "--json", *arguments)

    def test_cpus_compute_the_same_with_both(self):
        reports = [self.train(*flags) for flags in ((), ("--numerics", "reproducible"), ("--numerics", "fast"))]
        self.assertEqual([report["numerics"] for report in reports], ["reproducible", "reproducible", "fast"])
        self.assertEqual(1, len({report["weights_sha256"] for report in reports}))

    def test_compile_is_refused_where_nothing_can_be_captured(self):
        self.refuse("bench", "--model", "mlp", "--steps", "1", "--compile", saying=["--compile", "CPU", "--devices gpu:0"])
        self.refuse("bench", "--model", "mlp", "--strategy", "central_storage", "--compile",
                    saying=["central_storage", "--compile"])
        self.refuse_training(*MLP, "--compile", saying=["--compile", "CPU"])
        report = self.train("--model-dir", self.model_dir, "--steps", "2")
        self.assertEqual((report["compile"], report["eager_reason"]), (False, None))
        self.refuse("evaluate", *MLP, "--model-dir", self.model_dir, "--compile", saying=["--compile", "CPU"])

    def test_a_run_keeps_its_numerics(self):
        flags = ("--model-dir", self.model_dir)
        self.train(*flags, "--steps", "2", "--numerics", "fast")
        self.refuse("train", *MLP, *flags, "--steps", "4", saying=["numerics", "fast", "reproducible"])
        self.succeed("evaluate", *MLP, "--model-dir", self.model_dir, "--numerics", "reproducible", "--json")

    def test_unknown_ones_are_refused(self):
        self.refuse_training(*MLP, "--numerics", "quick", saying=["--numerics", "reproducible", "fast"])

    def test_a_session_on_a_gpu_gives_commands_flags_that_they_have(self):
        known = {name: set(re.findall(r"--[a-z][a-z-]*", run(name, "--help").stdout)) for name in ("bench", "train", "devices")}
        for step in gpu_steps.STEPS:
            if step.command[0] == "brigade":
                self.assertLessEqual({word for word in step.command if word.startswith("--")}, known[step.command[1]], step.name)

    def test_bench_and_devices_report_them(self):
        report = self.succeed("bench", "--model", "mlp", "--numerics", "fast", "--steps", "2", "--json")
        self.assertEqual(report["numerics"], "fast")
        self.assertIsNone(report["peak_gpu_memory_bytes"])
        devices = self.succeed("devices", "--json")
        self.assertEqual(devices["numerics"]["reproducible"],
                         {"deterministic": True, "tf32": False, "cudnn_benchmark": False})
        self.assertTrue(devices["numerics"]["fast"]["tf32"])


if __name__ == "__main__":
    unittest.main()

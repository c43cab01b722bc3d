"""TensorBoard reads what `brigade train` writes."""
import json
import os
import struct
import subprocess
import unittest

from event_files import fields, records
from sample import SampleTest
from with_tensorboard import found_by_tensorboard, needs_tensorboard

COMMAND = os.environ["BRIGADE_COMMAND"]
DEADLINE = 120 * float(os.environ.get("BRIGADE_TEST_SLOWNESS", "1"))
RUN = ("train", "--model", "mnist_cnn", "--dataset", "synthetic", "--train-examples", "96", "--batch-size", "8", "--epochs", "1",
       "--eval", "none", "--strategy", "mirrored", "--devices", "cpu:0,cpu:1", "--allow-oversubscription", "--json")
STEPS = 6
SUMMARY, TAG, SIMPLE_VALUE = 5, 1, 2  # numbers of fields of an event and of a summary's value


def scalars_in(folder):
    """{tag: [[step, value]]} of all event files, by an independent reader of the format."""
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in records(path.read_bytes())[0]:
            event = fields(record)
            for value in fields(event.get(SUMMARY, [b""])[0]).get(1, []):
                value = fields(value)
                if SIMPLE_VALUE in value:
                    found.setdefault(value[TAG][0].decode(), []).append([event.get(2, [0])[0], value[SIMPLE_VALUE][0]])
    return found


class Run(SampleTest):
    def train(self, *arguments):
        result = subprocess.run([COMMAND, *RUN, "--model-dir", self.folder, "--summaries-every", "1steps", *arguments],
                                capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
        self.assertEqual(0, result.returncode, result.stderr)
        return json.loads(result.stdout.splitlines()[-1])

    @needs_tensorboard
    def test_scalars_and_the_graph_with_times_of_a_profiled_step(self):
        report = self.train("--profile-steps", "2:4")
        found = found_by_tensorboard(self.folder)
        self.assertEqual(scalars_in(self.folder), found["scalars"])
        self.assertEqual(list(range(1, STEPS + 1)), [step for step, _ in found["scalars"]["loss"]])
        self.assertEqual([STEPS, struct.unpack("<f", struct.pack("<f", report["final_loss"]))[0]], found["scalars"]["loss"][-1])
        self.check_graph(found["graph"])
        [(tag, times)] = found["times"].items()
        self.assertEqual("step_4", tag)
        self.assertLessEqual(set(times), set(found["graph"]))
        self.assertEqual({"/device:CPU:0", "/device:CPU:1"}, {device for device, _ in times.values()})
        dense1 = "dense1/Addmm" if "dense1/Addmm" in times else "dense1/SmallBatchProduct"  # the latter with AVX2
        self.assertGreater(times[dense1][1], 0)

    def check_graph(self, graph):
        """Every variable once (replicas on CPUs share them); every replica's layers on its device, in the order of the pass."""
        shapes = {name: node["shape"] for name, node in graph.items() if node["op"] == "VariableV2"}
        self.assertEqual({"conv1/weight": [32, 1, 5, 5], "conv1/bias": [32], "conv2/weight": [64, 32, 5, 5], "conv2/bias": [64],
                          "dense1/weight": [1024, 3136], "dense1/bias": [1024], "dense2/weight": [10, 1024],
                          "dense2/bias": [10]}, shapes)
        for replica, prefix in enumerate(("", "replica_1/")):
            read = graph[f"{prefix}conv1/ConvPoolRelu"]
            self.assertEqual([f"{prefix}inputs", "conv1/weight", "conv1/bias"], read["inputs"])
            read = graph[f"{prefix}conv2/ConvPoolRelu"]
            self.assertEqual([f"{prefix}conv1/ConvPoolRelu", "conv2/weight", "conv2/bias"], read["inputs"])
            self.assertEqual(f"/device:CPU:{replica}", read["device"])
            if f"{prefix}dense1/Addmm" in graph:  # without AVX2; else with kernels for few examples
                self.assertIn("dense1/bias", graph[f"{prefix}dense1/Addmm"]["inputs"])
            else:
                self.assertIn("dense1/weight", graph[f"{prefix}dense1/SmallBatchProduct"]["inputs"])
                self.assertEqual([f"{prefix}dense1/SmallBatchProduct", "dense1/bias"], graph[f"{prefix}dense1/Add"]["inputs"])
            self.assertIn(f"{prefix}Relu", graph[f"{prefix}dense2/Addmm"]["inputs"])


if __name__ == "__main__":
    unittest.main()

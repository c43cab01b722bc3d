"""TensorBoard itself reads what the sample program writes, number by number."""
import bisect
import math
import struct
import sys
import unittest

from sample import SampleTest
from with_tensorboard import found_by_tensorboard, needs_tensorboard


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def tensorflow_histogram(values):
    """Limits and counts by the rule of TensorFlow's histogram.cc: ranges that grow by a tenth from 1e-12 on, both ways from 0;
    a value on a limit belongs to the range after it; of adjacent empty ranges only the last one's limit stays."""
    positive, limit = [], 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(sys.float_info.max)
    limits = [-limit for limit in reversed(positive)] + [0.0] + positive
    counts = [0] * len(limits)
    for value in values:
        counts[bisect.bisect_right(limits, value)] += 1
    kept = [i for i, count in enumerate(counts) if count > 0 or i + 1 == len(counts) or counts[i + 1] > 0]
    return [limits[i] for i in kept], [counts[i] for i in kept]


@needs_tensorboard
class TensorBoard(SampleTest):
    @classmethod
    def setUpClass(cls):
        cls.found = None

    def setUp(self):
        super().setUp()
        if self.found is None:  # one run serves all: it takes seconds to load
            self.write_all()
            type(self).found = found_by_tensorboard(self.folder)

    def check_histogram(self, tag, values):
        [found] = self.found["histograms"][tag]
        limits, counts = tensorflow_histogram(values)
        self.assertEqual((limits, counts), (found["limits"], found["counts"]))
        self.assertEqual([min(values), max(values), len(values)], found["head"][:3])
        self.assertTrue(math.isclose(math.fsum(values), found["head"][3], rel_tol=1e-12))
        self.assertTrue(math.isclose(math.fsum(value * value for value in values), found["head"][4], rel_tol=1e-12))

    def test_every_scalar(self):
        self.assertEqual({"loss": [[step, float32(1 / (step + 1))] for step in range(10)],
                          "share/input": [[2, 0.25]], "share/compute": [[2, 0.75]]}, self.found["scalars"])

    def test_histograms_bucket_by_bucket(self):
        self.check_histogram("weights", [-1.5, 0.0, 0.5, 0.5, 3.0, 1e30, -1e-13])
        self.check_histogram("spread", [(i * 7919 % 1000 - 500) / 64 * 2.0 ** (i % 40 - 20) for i in range(2000)])
        [ranges] = self.found["histograms"]["ranges"]
        self.assertEqual({"step": 3, "head": [0, 2, 3, 4, 5.5], "limits": [1, 2], "counts": [1, 2]}, ranges)

    def test_images_pixel_by_pixel(self):
        for channels in (1, 3, 4):
            self.assertEqual([{"step": 4, "size": [7, 5], "pixels": [(200 + i) % 256 for i in range(35 * channels)]}],
                             self.found["images"][f"image{channels}"])

    def test_text(self):
        self.assertEqual({"note": [[5, "# grüß *dich*"]]}, self.found["texts"])

    def test_the_graph_and_the_times_of_its_nodes(self):
        device = "/job:worker/task:0/device:CPU:0"
        self.assertEqual({"images": {"op": "Placeholder", "device": "", "inputs": []},
                          "conv1/weights": {"op": "VariableV2", "device": device, "inputs": [], "shape": [32, 1, 5, 5]},
                          "conv1/Conv2D": {"op": "Conv2D", "device": "", "inputs": ["images", "conv1/weights"]}},
                         self.found["graph"])
        self.assertEqual({"step_6": {"conv1/Conv2D": [device, 250]}}, self.found["times"])


if __name__ == "__main__":
    unittest.main()

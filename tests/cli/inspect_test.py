"""What `brigade inspect` shows of weights, and how it compares them."""
import json
import pathlib
import shutil
import struct
import unittest

from brigade_process import MLP, CommandTest, run

GOLDEN = pathlib.Path(__file__).parents[2] / "brigade/checkpoint/testing/data"


def write_safetensors(path, tensors):
    """{name: [float32]} in the format that docs/formats.md gives."""
    header, data = {}, b""
    for name, values in tensors.items():
        content = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Inspect(CommandTest):
    def test_shows_a_checkpoint(self):
        seen = self.succeed("inspect", GOLDEN / "checkpoint-v1", "--json")
        self.assertEqual((seen["format"], seen["step"]), ("checkpoint", 120))
        by_name = {tensor["name"]: tensor for tensor in seen["tensors"]}
        self.assertEqual(by_name["conv1/weights"],
                         {"section": "variables", "name": "conv1/weights", "dtype": "float32", "shape": [2, 2], "bytes": 16,
                          "not_finite": 0})
        self.assertEqual(by_name["conv1/weights/adam/m"]["section"], "tensors")

    def test_shows_a_checkpoint_to_people(self):
        result = run("inspect", GOLDEN / "checkpoint-v1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step       120\n", result.stdout)
        self.assertIn("  conv1/weights  float32 [2, 2]\n", result.stdout)

    def test_shows_the_newest_of_a_directory(self):
        shutil.copytree(GOLDEN / "checkpoint-v1", self.folder / "ckpt-120")
        self.assertEqual(self.succeed("inspect", self.folder, "--json")["path"], str(self.folder / "ckpt-120"))

    def test_shows_a_file_of_pytorch(self):
        seen = self.succeed("inspect", GOLDEN / "bare.pt", "--json")
        self.assertEqual((seen["format"], seen["tensors"][0]["shape"]), ("torch", [2]))

    def test_shows_a_checkpoint_of_tensorflow(self):
        for path in (GOLDEN / "tf/objects.index", GOLDEN / "tf/objects"):
            seen = self.succeed("inspect", path, "--json")
            self.assertEqual((seen["format"], len(seen["tensors"]), seen["left_out"]), ("tensorflow", 9, ["_CHECKPOINTABLE_OBJECT_GRAPH"]))
        result = run("inspect", GOLDEN / "tf/saver")
        self.assertIn("  embedding/weights  float32 [130, 3]\n", result.stdout)

    def test_refuses_a_checkpoint_of_tensorflow_that_is_broken_or_named_by_its_data(self):
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copy(GOLDEN / f"tf/saver{suffix}", self.folder / f"m{suffix}")
        data = self.folder / "m.data-00000-of-00001"
        self.refuse("inspect", data, saying=["m.index"])
        data.write_bytes(data.read_bytes()[:-1])
        self.refuse("inspect", self.folder / "m", saying=[f"{data}: ", "cut short"])

    def test_shows_the_weights_of_a_training(self):
        self.succeed("train", *MLP, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--json")
        seen = self.succeed("inspect", self.model_dir / "weights.safetensors", "--json")
        self.assertEqual(seen["format"], "safetensors")
        self.assertGreater(len(seen["tensors"]), 3)

    def test_compares(self):
        a, b = self.folder / "a.safetensors", self.folder / "b.safetensors"
        write_safetensors(a, {"same": [1], "value": [1, 2], "shape": [1], "gone": [1]})
        write_safetensors(b, {"same": [1], "value": [1, 2.5], "shape": [1, 2], "new": [1]})
        result = run("inspect", a, b, "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        found = json.loads(result.stdout)
        self.assertFalse(found["equal"])
        self.assertEqual([each["name"] for each in found["only_in_a"]], ["gone"])
        self.assertEqual([each["name"] for each in found["only_in_b"]], ["new"])
        self.assertEqual([each["b"] for each in found["form_differs"]], ["float32 [2]"])
        self.assertEqual([(each["name"], each["max_abs_difference"]) for each in found["value_differs"]], [("value", 0.5)])
        text = run("inspect", a, b)
        self.assertEqual(text.returncode, 1)
        self.assertIn("  value  float32 [2]  1 elements, by at most 0.5\n", text.stdout)

    def test_says_that_equals_are_equal(self):
        result = run("inspect", GOLDEN / "checkpoint-v1", GOLDEN / "checkpoint-v1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith("equal: "))

    def test_refuses_what_is_none(self):
        self.refuse("inspect", self.folder / "absent", saying=("absent",))
        self.refuse("inspect", self.folder, saying=("no complete checkpoint",))
        broken = self.folder / "ckpt-120"
        shutil.copytree(GOLDEN / "checkpoint-v1", broken)
        manifest = broken / "manifest.json"
        manifest.write_text(manifest.read_text().replace("120", "121", 1))
        self.refuse("inspect", broken, saying=("manifest.json", "CRC-32C"))
        self.refuse("inspect", saying=("PATH",))


if __name__ == "__main__":
    unittest.main()

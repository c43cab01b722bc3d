"""Weights that are not those of the training: altered by a disk, replaced on purpose, not finite."""
import json
import struct
import unittest

from brigade_process import MLP, CommandTest, run

TINY = (*MLP, "--hidden", "4")


def split(content):
    """The header of a safetensors file, and where its data begins."""
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length]), 8 + length


class Weights(CommandTest):
    def setUp(self):
        super().setUp()
        self.trained = self.succeed("train", *TINY, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--json")
        self.path = self.model_dir / "weights.safetensors"
        self.content = self.path.read_bytes()
        self.evaluate = ("evaluate", "--model-dir", self.model_dir, "--json")

    def flip(self, position, bit=0):
        changed = bytearray(self.content)
        changed[position] ^= 1 << bit
        self.path.write_bytes(changed)

    def check_data_is_guarded(self):
        """Every bit of a value counts; the lowest ones would change no metric."""
        begin = split(self.content)[1]
        for i in range(24):
            position = begin + i * (len(self.content) - 1 - begin) // 23
            with self.subTest(position=position):
                self.flip(position, i % 8)
                self.refuse(*self.evaluate, saying=["weights.safetensors"])

    def test_evaluate_refuses_every_flipped_bit_of_the_data(self):
        self.check_data_is_guarded()

    def test_without_a_result_the_file_itself_says_it(self):
        """As after a kill between the weights and run.json."""
        path = self.model_dir / "run.json"
        run_json = json.loads(path.read_text())
        run_json["result"] = None
        path.write_text(json.dumps(run_json))
        self.assertEqual(self.succeed(*self.evaluate)["weights_sha256"], self.trained["weights_sha256"])
        self.check_data_is_guarded()

    def test_a_flipped_bit_of_the_header_changes_no_weight_without_a_word(self):
        begin = split(self.content)[1]
        for position in range(8, begin, 17):
            with self.subTest(position=position):
                self.flip(position)
                result = run(*self.evaluate)
                if result.returncode == 0:  # in free text, which is none of the weights
                    self.assertEqual(split(self.path.read_bytes())[0].keys(), split(self.content)[0].keys())
                    self.assertEqual(json.loads(result.stdout)["weights_sha256"], self.trained["weights_sha256"])
                else:
                    self.assertEqual(result.returncode, 2, result.stderr)

    def test_the_message_names_both_hashes_and_the_flag(self):
        self.flip(len(self.content) - 1)
        self.refuse(*self.evaluate, saying=[self.trained["weights_sha256"], "run.json", "--allow-changed-weights"])
        changed = self.succeed(*self.evaluate, "--allow-changed-weights")
        self.assertNotEqual(changed["weights_sha256"], self.trained["weights_sha256"])

    def test_weights_of_another_training_need_the_flag_too(self):
        """They are complete, and record their own hash."""
        other = self.folder / "other"
        trained = self.succeed("train", *TINY, "--steps", "3", "--eval", "none", "--model-dir", other, "--json")
        self.path.write_bytes((other / "weights.safetensors").read_bytes())
        self.refuse(*self.evaluate, saying=[trained["weights_sha256"], self.trained["weights_sha256"]])
        evaluated = self.succeed(*self.evaluate, "--allow-changed-weights")
        self.assertEqual(evaluated["weights_sha256"], trained["weights_sha256"])

    def test_inspect_refuses_altered_weights(self):
        self.flip(len(self.content) - 1)
        self.refuse("inspect", self.path, saying=["weights.safetensors", "altered", self.trained["weights_sha256"]])
        self.refuse("inspect", self.path, self.path, saying=["altered"])
        self.succeed("inspect", self.path, "--json", "--allow-changed-weights")

    def write_nan(self):
        """Into the first element of the first tensor."""
        header, begin = split(self.content)
        del header["__metadata__"]
        name = min(header)
        at = begin + header[name]["data_offsets"][0]
        self.path.write_bytes(self.content[:at] + struct.pack("<f", float("nan")) + self.content[at + 4:])
        return name

    def test_weights_that_are_not_finite_are_reported(self):
        name = self.write_nan()
        result = run(*self.evaluate, "--allow-changed-weights")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["not_finite"], {name: 1})
        self.assertIn(f"1 weights of {name} are not finite", result.stderr)
        seen = self.succeed("inspect", self.path, "--json", "--allow-changed-weights")
        self.assertEqual({each["name"]: each["not_finite"] for each in seen["tensors"] if each["not_finite"]}, {name: 1})
        text = run("inspect", self.path, "--allow-changed-weights").stdout
        self.assertEqual([line for line in text.splitlines() if "1 elements are not finite" in line][0].split()[0], name)

    def test_finite_weights_are_not(self):
        result = run(*self.evaluate)
        self.assertEqual(json.loads(result.stdout)["not_finite"], {})
        self.assertNotIn("finite", result.stderr)


if __name__ == "__main__":
    unittest.main()

"""Other programs read our checkpoints: a reader written from docs/formats.md alone, and the safetensors package if it is installed."""
import json
import pathlib
import struct
import unittest

try:
    import safetensors
except ImportError:
    safetensors = None

GOLDEN = pathlib.Path(__file__).parent / "testing/data/checkpoint-v1"
FORMATS = {"F64": "d", "F32": "f", "I64": "q", "U8": "B"}  # of the golden files


def crc32c(data):
    total = 0xFFFFFFFF
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = (total >> 1) ^ (0x82F63B78 if total & 1 else 0)
    return f"{total ^ 0xFFFFFFFF:08x}"


def read_manifest(folder):
    text = (folder / "manifest.json").read_bytes()
    body, tail = text[:text.rindex(b',"crc32c"')], text[text.rindex(b',"crc32c"'):]
    assert tail == f',"crc32c":"{crc32c(body)}"}}\n'.encode(), tail
    return json.loads(text)


def read_tensors(data):
    """{name: (dtype, shape, elements)} of a safetensors file."""
    length, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        code = FORMATS[entry["dtype"]]
        elements = struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", data[begin:end])
        result[name] = (entry["dtype"], entry["shape"], elements)
    return result


class Reader(unittest.TestCase):
    def setUp(self):
        self.manifest = read_manifest(GOLDEN)

    def test_the_manifest_describes_the_checkpoint(self):
        self.assertEqual((self.manifest["brigade_checkpoint"], self.manifest["step"]), (1, 120))
        self.assertEqual(self.manifest["state"], {"buffer": "$bytes:state/buffer", "position": 120})
        self.assertEqual(self.manifest["metadata"], {"strategy": "mirrored"})
        self.assertEqual(self.manifest["metrics"], {"accuracy": 1 / 121})
        for file in self.manifest["files"]:
            data = (GOLDEN / file["name"]).read_bytes()
            self.assertEqual((file["bytes"], file["crc32c"]), (len(data), crc32c(data)))

    def test_the_files_match_the_manifest(self):
        files = [read_tensors((GOLDEN / file["name"]).read_bytes()) for file in self.manifest["files"]]
        for section in ("variables", "tensors", "state_arrays"):
            for name, entry in self.manifest[section].items():
                self.assertEqual(files[entry["file"]][name][:2], (entry["dtype"], entry["shape"]))
        values = {name: tensor[2] for file in files for name, tensor in file.items()}
        self.assertEqual(values["conv1/weights"], (1.5,) * 4)
        self.assertEqual(values["conv1/weights/adam/v"], (120.5,) * 6)
        self.assertEqual(values["step"], (120,))
        self.assertEqual(values["state/buffer"], (120,) * 4)

    @unittest.skipIf(safetensors is None, "the package safetensors is not installed (tools/install_python.py)")
    def test_the_package_reads_every_file(self):
        for file in self.manifest["files"]:
            data = (GOLDEN / file["name"]).read_bytes()
            expected = read_tensors(data)
            found = dict(safetensors.deserialize(data))
            self.assertEqual(found.keys(), expected.keys())
            for name, (dtype, shape, elements) in expected.items():
                self.assertEqual((found[name]["dtype"], list(found[name]["shape"])), (dtype, shape))
                self.assertEqual(struct.unpack(f"<{len(elements)}{FORMATS[dtype]}", found[name]["data"]), elements)


if __name__ == "__main__":
    unittest.main()

"""Hostile files: small ones that ask for much memory, endless ones, pipes instead of files, names that control a terminal."""
import gzip
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import unittest
import zipfile

import idx_files
from brigade_process import COMMAND, DEADLINE, MLP, SLOWNESS, CommandTest

GOLDEN = pathlib.Path(__file__).parents[2] / "brigade/checkpoint/testing/data"
TEBIBYTE = 1 << 40
ADDRESS_SPACE = 6 << 30  # what libtorch takes for itself, and some more
NASTY = "a\x1b[2Jb\u202ec\x9bd\ne"
SHOWN = r"a\x1b[2Jb\u202ec\u009bd\ne"

# Memory that cannot be had is an error of Brigade; a sanitizer ends the program before.
needs_refusable_memory = unittest.skipIf(SLOWNESS > 1, "a sanitizer ends a program that asks for a TiB")


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def run(*arguments, environment=None):
    """`brigade` under a limit of memory, which sanitizers cannot live with."""
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE,
                          stdin=subprocess.DEVNULL, preexec_fn=None if SLOWNESS > 1 else limited,
                          env={**os.environ, **(environment or {})})


def sparse(path, size=TEBIBYTE, begin=b""):
    with open(path, "wb") as file:
        file.write(begin)
        file.truncate(size)
    return path


def torch_file(path, pickle, entries=()):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("f/data.pkl", b"\x80\x02" + pickle + b".")
        for name, content in entries:
            archive.writestr(name, content)
    return path


def text(word):
    return b"X" + struct.pack("<I", len(word)) + word


def safetensors(path, header, data=b"", pad=b" "):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    header += pad * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def crc32c(content):
    total = 0xFFFFFFFF
    for byte in content:
        total ^= byte
        for _ in range(8):
            total = (total >> 1) ^ (0x82F63B78 if total & 1 else 0)
    return total ^ 0xFFFFFFFF


def change_manifest(folder, change):
    """Rewrites a checkpoint's manifest, with the right checksum."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32c"]
    change(manifest)
    body = json.dumps(manifest, separators=(",", ":"))[:-1]
    path.write_text(f'{body},"crc32c":"{crc32c(body.encode()):08x}"}}\n')


class HostileFile(CommandTest):
    def fails(self, *arguments, saying, code=2, environment=None):
        """A command that must end with this code, and one short line that has these words."""
        result = run(*arguments, environment=environment)
        self.assertEqual(result.returncode, code, result.stderr[-2000:])
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr[-2000:])
        self.assertTrue(result.stderr.startswith("brigade: error: "), result.stderr[-2000:])
        self.assertLess(len(result.stderr), 3000)
        self.assertNotIn("bad_alloc", result.stderr)
        for words in saying:
            self.assertIn(words, result.stderr)
        return result.stderr


class Memory(HostileFile):
    def refuse_torch(self, pickle, *, saying, entries=()):
        path = torch_file(self.folder / "hostile.pt", pickle, entries)
        self.assertLess(path.stat().st_size, 1_300_000)
        self.fails("inspect", path, saying=["hostile.pt", *saying])

    def test_names_that_repeat_a_long_key(self):
        self.refuse_torch(b"}" + text(b"k" * 500_000) + b"](" + b"N" * 400_000 + b"es", saying=["names of its values"])

    def test_a_long_list_that_is_made_a_size_again_and_again(self):
        copies = b"ctorch\nSize\nq\x01](" + b"h\x01h\x00\x85R" * 150_000 + b"e"
        self.refuse_torch(b"(" + b"K\x01" * 100_000 + b"tq\x00" + copies, saying=["values"])

    def test_a_tensor_with_a_thousand_arguments(self):
        many = b"(" + b"N" * 100_000 + b"tq\x00ctorch._utils\n_rebuild_tensor_v2\nq\x01]("
        self.refuse_torch(many + b"h\x01h\x00R" * 150_000 + b"e", saying=["_rebuild_tensor_v2", "100000 arguments"])

    def test_entries_that_lie_in_each_other(self):
        path = torch_file(self.folder / "nested.pt", b"N", [("f/data/0", b"x" * 1000)])
        content = path.read_bytes()
        directory = content.index(b"PK\x01\x02")
        size = directory - (30 + len("f/data.pkl"))  # so the first entry's data reaches over the second entry
        changed = bytearray(content)
        struct.pack_into("<II", changed, directory + 20, size, size)
        path.write_bytes(bytes(changed))
        self.fails("inspect", path, saying=["nested.pt", "overlap"])

    @needs_refusable_memory
    def test_a_file_larger_than_memory(self):
        path = sparse(self.folder / "large.pt", begin=b"PK\x03\x04")
        self.fails("inspect", path, saying=["large.pt", "1.0 TiB"], code=1)

    @needs_refusable_memory
    def test_a_tensor_larger_than_memory(self):
        header = {"w": {"dtype": "U8", "shape": [TEBIBYTE], "data_offsets": [0, TEBIBYTE]}}
        path = safetensors(self.folder / "large.safetensors", header)
        os.truncate(path, path.stat().st_size + TEBIBYTE)
        self.fails("inspect", path, saying=[str(TEBIBYTE)], code=1)


class Data(HostileFile):
    def setUp(self):
        super().setUp()
        self.data = idx_files.write(self.folder / "data")
        self.images = self.data / "train-images-idx3-ubyte"
        (self.data / "train-images-idx3-ubyte.gz").unlink()

    def refuse_data(self, *, saying, code=2):
        self.fails("train", "--model", "mlp", "--dataset", "mnist", "--data-dir", self.data, saying=saying, code=code)

    def test_a_sparse_file_after_a_valid_header(self):
        sparse(self.images, begin=idx_files.images(40))
        self.refuse_data(saying=["train-images-idx3-ubyte", "40x28x28 need 31360 bytes", str(TEBIBYTE - 16)])

    @needs_refusable_memory
    def test_a_sparse_file_that_says_its_size(self):
        sparse(self.images, 16 + TEBIBYTE, begin=struct.pack(">IIII", 2051, 1 << 20, 1 << 10, 1 << 10))
        self.refuse_data(saying=["train-images-idx3-ubyte", "1.0 TiB", "no memory"], code=1)

    def test_a_device(self):
        self.images.symlink_to("/dev/zero")
        self.refuse_data(saying=["train-images-idx3-ubyte", "a device", "name a regular file"])

    def test_a_pipe(self):
        os.mkfifo(self.images)
        self.refuse_data(saying=["train-images-idx3-ubyte", "a named pipe"])

    def test_a_gzip_bomb_after_a_valid_header(self):
        bomb = io.BytesIO()
        with gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=9) as file:
            file.write(idx_files.images(40))
            for _ in range(64):
                file.write(bytes(16 << 20))
        self.images.with_suffix(".gz").write_bytes(bomb.getvalue())
        self.refuse_data(saying=["train-images-idx3-ubyte.gz", "need 31360 bytes, but it holds more"])


class InPlaceOfAFile(HostileFile):
    def each(self, path):
        """Puts a pipe, a device and a sparse file there."""
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        yield "a named pipe"
        path.unlink()
        path.symlink_to("/dev/zero")
        yield "a device"
        path.unlink()
        sparse(path)
        yield "1.0 TiB"
        path.unlink()

    def test_the_cluster(self):
        path = self.folder / "cluster.json"
        for what in self.each(path):
            with self.subTest(what=what):
                self.fails("train", *MLP, "--strategy", "multi_worker_mirrored", "--cluster", path, "--task", "worker:0",
                          saying=["cluster.json", what])

    def test_weights_for_inspect(self):
        for what in self.each(self.folder / "w.safetensors"):
            if what != "1.0 TiB":
                with self.subTest(what=what):
                    self.fails("inspect", self.folder / "w.safetensors", saying=["w.safetensors", what])

    def test_what_lies_in_a_model_directory(self):
        self.succeed("train", *MLP, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--json")
        for what in self.each(self.model_dir / "run.json"):
            with self.subTest(file="run.json", what=what):
                self.fails("evaluate", "--model-dir", self.model_dir, saying=["run.json", what])
                refused = what if what == "1.0 TiB" else "regular file"  # by the check of the model directory's entries
                self.fails("train", *MLP, "--steps", "4", "--model-dir", self.model_dir, saying=["run.json", refused])

    def test_a_manifest_does_not_keep_the_checkpoint_before_from_being_found(self):
        shutil.copytree(GOLDEN / "checkpoint-v1", self.folder / "ckpt-120")
        shutil.copytree(GOLDEN / "checkpoint-v1", self.folder / "ckpt-130")
        for what in self.each(self.folder / "ckpt-130" / "manifest.json"):
            with self.subTest(what=what):
                seen = run("inspect", self.folder, "--json")
                self.assertEqual(seen.returncode, 0, seen.stderr)
                self.assertEqual(json.loads(seen.stdout)["path"], str(self.folder / "ckpt-120"))


class Positions(CommandTest):
    """A saved position of the input that no training can reach."""

    def trained(self, ahead):
        self.succeed("train", *MLP, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--json")
        changed = []

        def go_far(state):
            for key, value in state.items() if isinstance(state, dict) else enumerate(state):
                if key == "ahead":
                    state[key] = f"$uint64:{ahead}"
                    changed.append(key)
                elif isinstance(value, (dict, list)):
                    go_far(value)

        for folder in (self.model_dir / "checkpoints").glob("ckpt-*"):
            change_manifest(folder, lambda manifest: go_far(manifest["state"]))
        self.assertTrue(changed)
        return ("train", *MLP, "--steps", "4", "--eval", "none", "--model-dir", self.model_dir, "--json")

    def test_absurdly_far_ahead(self):
        result = run(*self.trained(1 << 60))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"{1 << 60} elements ahead", result.stderr)

    def test_going_there_can_be_interrupted(self):
        command = [COMMAND, *map(str, self.trained(1 << 24))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                while "training mlp" not in process.stderr.readline():
                    self.assertIsNone(process.poll())
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=DEADLINE)
            finally:
                process.kill()
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("nothing had begun", errors)


class Terminal(HostileFile):
    def check(self, shown):
        for character in ("\x1b", "\u202e", "\x9b", "\x07"):
            self.assertNotIn(character, shown)

    def test_names_of_tensors_and_metadata(self):
        header = {"__metadata__": {NASTY: NASTY}, NASTY: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
        path = safetensors(self.folder / "w.safetensors", header, b"x")
        seen = run("inspect", path)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.check(seen.stdout)
        self.assertIn(f"metadata   {SHOWN} {SHOWN}\n", seen.stdout)
        self.assertIn(f"  {SHOWN}  uint8 [1]\n", seen.stdout)
        exact = json.loads(run("inspect", path, "--json").stdout)
        self.assertEqual((exact["metadata"], exact["tensors"][0]["name"]), ({NASTY: NASTY}, NASTY))

    def test_names_in_a_comparison(self):
        entry = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
        a = safetensors(self.folder / "a\x1b[1m.safetensors", {NASTY: entry, "same": {**entry, "data_offsets": [1, 2]}}, b"xx")
        b = safetensors(self.folder / "b.safetensors", {NASTY: entry}, b"y")
        seen = run("inspect", a, b)
        self.assertEqual(seen.returncode, 1, seen.stderr)
        self.check(seen.stdout)
        self.assertIn(f"  {SHOWN}  uint8 [1]  1 elements", seen.stdout)

    def test_errors(self):
        header = {"w": {"dtype": "\x1b[31mF99", "shape": [1], "data_offsets": [0, 1]}}
        path = safetensors(self.folder / "\x1b[2Jw.safetensors", header, b"x")
        self.check(self.fails("inspect", path, saying=[r"\x1b[2Jw.safetensors", r"'\x1b[31mF99'"]))
        self.check(self.fails("inspect", self.folder / "no\x1b]0;file\x07", saying=[r"no\x1b]0;file\x07"]))

    def test_keys_of_a_manifest(self):
        shutil.copytree(GOLDEN / "checkpoint-v1", self.model_dir / "checkpoints" / "ckpt-120")
        broken = self.model_dir / "checkpoints" / "ckpt-130"
        shutil.copytree(GOLDEN / "checkpoint-v1", broken)
        change_manifest(broken, lambda manifest: manifest.update({"\x1b[2J": 1}))
        result = run("inspect", broken)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.check(result.stderr)
        self.assertIn(r"\x1b[2J", result.stderr)


class Json(HostileFile):
    """docs/formats.md: text after the end is refused, and so is a byte-order mark."""

    ENTRY = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'

    def test_a_header_of_safetensors(self):
        for header in (self.ENTRY + b"\0", self.ENTRY + b"\0garbage", b"\xef\xbb\xbf" + self.ENTRY):
            with self.subTest(header=header):
                path = safetensors(self.folder / "w.safetensors", header, b"x")
                self.fails("inspect", path, saying=["w.safetensors", "not JSON"])

    def test_a_cluster(self):
        cluster = b'{"cluster": {"worker": ["127.0.0.1:1"]}}'
        for content in (cluster + b"\0{", b"\xef\xbb\xbf" + cluster):
            with self.subTest(content=content):
                (self.folder / "c.json").write_bytes(content)
                self.fails("train", *MLP, "--strategy", "multi_worker_mirrored", "--cluster", self.folder / "c.json",
                           "--task", "worker:0", saying=["c.json", "not JSON"])

    def test_a_run(self):
        self.succeed("train", *MLP, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir, "--json")
        path = self.model_dir / "run.json"
        path.write_bytes(path.read_bytes() + b"\0")
        self.fails("evaluate", "--model-dir", self.model_dir, saying=["run.json", "NUL"])


class LongValues(HostileFile):
    """What is quoted in an error is cut."""

    def test_many_processes_that_did_not_come(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        said = run("train", *MLP, "--strategy", "multi_worker_mirrored", "--start-timeout", str(int(5 * SLOWNESS)),
                   environment={"RANK": "0", "WORLD_SIZE": "1000000", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        self.assertEqual(said.returncode, 1, said.stderr[-1000:])
        self.assertIn("999999 of 1000000 processes did not join", said.stderr)
        self.assertLess(len(said.stderr), 5000)

    def test_long_words(self):
        long = "a" * 100_000
        train = ("train", *MLP)
        workers = (*train, "--strategy", "multi_worker_mirrored")
        self.fails(*workers, "--cluster", f"worker={long}:1,b:1", saying=["100000"])
        self.fails(*train, "--strategy", long, saying=["unknown strategy 'aaa"])
        self.fails(*train, "--devices", long, saying=["aaa"])
        self.fails(*workers, saying=["WORLD_SIZE is 'aaa"], environment={"RANK": "0", "WORLD_SIZE": long})
        self.fails(*workers, saying=["TF_CONFIG"], environment={"TF_CONFIG": '{"cluster": "' + long + '"}'})
        self.fails(long, saying=["unknown command 'aaa"])
        self.fails(*train, "--" + long, saying=["unknown flag --aaa"])
        self.fails("inspect", "/" + long, saying=["File name too long"])


if __name__ == "__main__":
    unittest.main()

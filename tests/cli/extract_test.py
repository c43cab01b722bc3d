"""`brigade extract`: features of any model to a file; weights with torchvision's names; what is refused."""
import array
import re
import unittest

import safetensors_files
from brigade_process import TWO_REPLICAS, CommandTest
from image_files import write_folder

NET = ("--model", "slim_net", "--image-size", "16", "--batch-size", "8")
RESNET = ("--model", "resnet18", "--image-size", "32", "--batch-size", "4")


def torchvisions(name):
    """torchvision's name of a variable of a ResNet."""
    name = re.sub(r"^block(\d)/unit_(\d+)/", lambda found: f"layer{found[1]}.{int(found[2]) - 1}.", name)
    name = name.replace("shortcut/weights", "downsample.0.weight").replace("shortcut/BatchNorm/", "downsample.1.")
    name = re.sub(r"conv(\d)/BatchNorm/", r"bn\1.", name)
    name = re.sub(r"conv(\d)/weights", r"conv\1.weight", name)
    name = name.replace("logits/weights", "fc.weight").replace("logits/biases", "fc.bias")
    for ours, theirs in (("gamma", "weight"), ("beta", "bias"), ("moving_mean", "running_mean"), ("moving_variance", "running_var")):
        name = re.sub(rf"\.{ours}$", f".{theirs}", name)
    return name


class Extract(CommandTest):
    def setUp(self):
        super().setUp()
        self.images = self.folder / "images"
        write_folder(self.images, train=5, val=3)
        self.data = ("--dataset", "image_folder", "--data-dir", self.images)
        self.output = self.folder / "features.safetensors"

    def train(self, *arguments):
        return self.succeed("train", *arguments, *self.data, "--steps", "2", "--eval", "none", "--json", "--model-dir", self.model_dir)

    def extract(self, *arguments):
        """The report, the tensors and the metadata."""
        report = self.succeed("extract", "--output", self.output, "--json", *arguments)
        return report, *safetensors_files.read(self.output)

    def assert_close(self, some, others):
        self.assertEqual(len(some), len(others))
        self.assertLess(max(abs(a - b) for a, b in zip(some, others)), 1e-5)

    def refused(self, *arguments, saying):
        self.refuse("extract", *arguments, saying=saying)
        self.assertFalse(self.output.exists())
        self.assertEqual([entry.name for entry in self.folder.iterdir() if entry.name.endswith(".rows")], [])

    def test_features_of_a_trained_model_have_labels_and_paths(self):
        trained = self.train(*NET)
        report, tensors, metadata = self.extract("--init-from", self.model_dir, "--endpoint", "fc1,pool1", "--global-pool")
        self.assertEqual(report["examples"], 10)
        self.assertEqual(report["weights_sha256"], trained["weights_sha256"])
        self.assertEqual(report["tensors"], {"fc1": [10, 256], "pool1": [10, 64], "labels": [10], "paths": [10, 20]})
        self.assertEqual({name: shape for name, (_, shape, _) in tensors.items()}, report["tensors"])
        self.assertEqual(list(tensors["labels"][2]), [0] * 5 + [1] * 5)
        width = tensors["paths"][1][1]
        paths = [tensors["paths"][2][i * width:(i + 1) * width].tobytes().rstrip(b"\0").decode() for i in range(10)]
        # The classes are sorted: "across" before "along".
        self.assertEqual(paths, [f"train/{name}/{i:03d}.png" for name in ("across", "along") for i in range(5)])
        self.assertEqual((metadata["model"], metadata["end_points"], metadata["global_pool"], metadata["split"]),
                         ("slim_net", "fc1,pool1", "true", "train"))
        self.assertIn('"resize"', metadata["brigade_weights_record"])
        _, two, _ = self.extract("--init-from", self.model_dir, "--endpoint", "fc1,pool1", "--global-pool", "--batch-size", "3", *TWO_REPLICAS)
        for name in ("fc1", "pool1"):
            self.assert_close(two[name][2], tensors[name][2])
        self.assertEqual(two["labels"], tensors["labels"])
        self.assertEqual(two["paths"], tensors["paths"])

    def test_the_test_split_and_modules_have_features_too(self):
        for model in ("mlp", "mnist_cnn"):
            with self.subTest(model=model):
                folder = self.folder / model
                self.succeed("train", "--model", model, "--dataset", "synthetic", "--train-examples", "64", "--batch-size", "16", "--steps", "1",
                             "--eval", "none", "--json", "--model-dir", folder)
                report, tensors, metadata = self.extract("--init-from", folder, "--endpoint", "dense1")
                self.assertEqual((report["examples"], tensors["dense1"][1][0], "paths" in tensors), (64, 64, False))
                self.assertEqual(metadata["dataset"], "synthetic")
        report, _, _ = self.extract("--init-from", self.folder / "mlp", "--endpoint", "dense1", "--split", "test")
        self.assertEqual(report["examples"], 2000)

    def test_python_reads_the_file(self):
        try:
            from safetensors.numpy import load_file
        except ImportError:
            self.skipTest("needs the Python package safetensors")
        self.train(*NET)
        self.extract("--init-from", self.model_dir, "--endpoint", "fc1")
        self.assertEqual(load_file(self.output)["fc1"].shape, (10, 256))

    def test_weights_with_torchvisions_names_are_those_with_brigades(self):
        self.train(*RESNET)
        weights, _ = safetensors_files.read(self.model_dir / "weights.safetensors")
        theirs = {torchvisions(name): tensor for name, tensor in weights.items()}
        theirs["bn1.num_batches_tracked"] = ("I64", [], array.array("q", [2]))
        file = self.folder / "resnet18.safetensors"
        safetensors_files.write(file, theirs)
        with self.subTest("extract"):
            ours_report, ours, _ = self.extract("--init-from", self.model_dir, "--endpoint", "global_pool")
            report, tensors, _ = self.extract(*RESNET, *self.data, "--init-from", file, "--endpoint", "global_pool")
            self.assertEqual(report["weights_sha256"], ours_report["weights_sha256"])
            self.assertEqual(tensors["global_pool"], ours["global_pool"])
        with self.subTest("evaluate"):
            expected = self.succeed("evaluate", "--model-dir", self.model_dir, "--json")
            found = self.succeed("evaluate", "--init-from", file, *RESNET, *self.data, "--json")
            for key in ("eval_loss", "eval_accuracy", "weights_sha256"):
                self.assertEqual(found[key], expected[key], key)
        three = self.folder / "three"
        write_folder(three, train=2, val=1, classes=("a", "b", "c"))
        data = ("--dataset", "image_folder", "--data-dir", three)
        with self.subTest("extract, for data of other classes"):
            report, tensors, _ = self.extract(*RESNET, *data, "--init-from", file, "--endpoint", "logits")
            self.assertEqual(tensors["logits"][1], [6, 2])
        with self.subTest("train"):
            fine_tuned = self.folder / "fine_tuned"
            begin = ("train", *RESNET, *data, "--steps", "1", "--eval", "none", "--json", "--model-dir", fine_tuned, "--init-from", file)
            self.refuse(*begin, saying=["logits/weights", "[3, 512]", "[2, 512]"])
            self.succeed(*begin, "--overwrite", "--init-exclude", "logits/*", "--freeze", "block1/*")
            after, _ = safetensors_files.read(fine_tuned / "weights.safetensors")
            self.assertEqual(after["block1/unit_1/conv1/weights"], weights["block1/unit_1/conv1/weights"])
            self.assertEqual(after["logits/weights"][1], [3, 512])

    def test_weights_that_fit_under_no_name_are_refused_with_the_differences(self):
        file = self.folder / "other.safetensors"
        safetensors_files.write(file, {"backbone.weight": ("F32", [2], array.array("f", [1, 2]))})
        for command in (("extract", "--endpoint", "fc1", "--output", self.output), ("evaluate",), ("train", "--model-dir", self.model_dir)):
            with self.subTest(command=command[0]):
                self.refuse(*command, *NET, *self.data, "--init-from", file, saying=["conv1/weights", "backbone.weight"])

    def test_refuses_what_cannot_be_extracted_before_it_begins(self):
        self.train(*NET)
        weights = self.model_dir / "weights.safetensors"
        here = ("--init-from", self.model_dir, "--output", self.output)
        self.refused(*here, "--endpoint", "pool", saying=["end point", "'pool'", "did you mean 'pool1'?", "conv1, pool1, fc1, fc2"])
        self.refused(*here, saying=["--endpoint"])
        self.refused(*here, "--endpoint", "fc1, ", saying=["--endpoint", "separated by commas"])
        self.refused(*here, "--endpoint", "fc1", "--split", "val", saying=["--split", "train"])
        self.refused("--init-from", self.folder / "nowhere", "--endpoint", "fc1", "--output", self.output, saying=["nowhere"])
        self.refused("--init-from", self.model_dir, "--endpoint", "fc1", "--output", self.folder / "no" / "f", saying=["no folder"])
        self.refused("--init-from", self.model_dir, "--endpoint", "fc1", "--output", self.folder, saying=["is a folder"])
        self.refused("--init-from", weights, *NET, *self.data, "--endpoint", "fc1", "--output", weights, saying=["--init-from"])
        self.refuse("evaluate", "--model-dir", self.model_dir, "--init-from", weights, saying=["--model-dir", "--init-from"])
        self.refuse("evaluate", saying=["--model-dir", "--init-from"])


if __name__ == "__main__":
    unittest.main()

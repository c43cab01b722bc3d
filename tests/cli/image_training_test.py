"""Training on folders of images: the data, the schedule, the averages, fine-tuning, and what is refused."""
import json
import pathlib
import random
import unittest

import idx_files
from brigade_process import TWO_REPLICAS, CommandTest, run
from image_files import stripes, write_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
BUNDLES = ROOT / "brigade/checkpoint/testing/data/tf"
NET = ("--model", "slim_net", "--image-size", "16", "--batch-size", "8", "--optimizer", "sgd", "--momentum", "0.9",
       "--learning-rate", "0.01", "--json")
AUGMENTED = ("--augment", "random_resized_crop,flip,rand_augment,random_erasing", "--mixup", "0.2", "--cutmix", "1", "--schedule", "cosine", "--decay-steps", "12", "--warmup", "3",
             "--base-batch-size", "16", "--label-smoothing", "0.1", "--clip-norm", "1", "--ema", "0.9")


class ImageTraining(CommandTest):
    def setUp(self):
        super().setUp()
        self.images = self.folder / "images"
        write_folder(self.images)
        self.data = ("--dataset", "image_folder", "--data-dir", str(self.images))

    def refused(self, *arguments):
        """The one line that an error is."""
        result = run("train", *NET, *arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_learns_the_classes_of_the_folders(self):
        report = self.succeed("train", *NET, *self.data, "--epochs", "6", "--model-dir", self.model_dir)
        self.assertEqual((report["examples"], report["classes"], report["eval_examples"]), (6 * 48, 2, 16))
        self.assertGreater(report["eval_accuracy"], 0.9)
        evaluated = self.succeed("evaluate", "--model-dir", self.model_dir, "--json")
        self.assertEqual(evaluated["eval_accuracy"], report["eval_accuracy"])
        on_two = self.succeed("evaluate", "--model-dir", self.model_dir, *TWO_REPLICAS, "--json")
        self.assertEqual(on_two["eval_accuracy"], report["eval_accuracy"])

    def test_a_training_with_everything_resumes_bit_for_bit(self):
        arguments = (*NET, *self.data, *AUGMENTED)
        whole = self.succeed("train", *arguments, "--steps", "12", "--model-dir", self.folder / "whole")
        self.succeed("train", *arguments, "--steps", "5", "--model-dir", self.model_dir)
        resumed = self.succeed("train", *arguments, "--steps", "12", "--model-dir", self.model_dir)
        self.assertEqual(resumed["first_step"], 5)
        for key in ("weights_sha256", "final_loss", "eval_loss"):
            self.assertEqual(resumed[key], whole[key], key)

    def test_images_may_be_normalized_on_the_device(self):
        """The same bits, and a training resumes from one way to the other."""
        arguments = (*NET, *self.data, "--augment", "random_resized_crop,flip,rand_augment")
        on_host = self.succeed("train", *arguments, "--steps", "8", "--model-dir", self.folder / "host")
        on_device = self.succeed("train", *arguments, "--steps", "8", "--normalize", "device", "--model-dir", self.folder / "device")
        self.succeed("train", *arguments, "--steps", "3", "--normalize", "device", "--model-dir", self.model_dir)
        resumed = self.succeed("train", *arguments, "--steps", "8", "--normalize", "host", "--model-dir", self.model_dir)
        self.assertEqual(resumed["first_step"], 3)
        for report in (on_device, resumed):
            for key in ("weights_sha256", "final_loss", "eval_loss", "eval_accuracy"):
                self.assertEqual(report[key], on_host[key], key)
        losses = [self.succeed("evaluate", "--model-dir", self.folder / "host", "--normalize", where, "--json")["eval_loss"] for where in ("host", "device")]
        self.assertEqual(losses[1], losses[0])

    def test_fashion_mnist_may_be_normalized_on_the_device(self):
        arguments = ("--model", "mlp", "--train-examples", "512", "--augment", "random_crop,flip", "--steps", "6", "--eval", "none", "--json")
        on_host = self.succeed("train", *arguments)
        on_device = self.succeed("train", *arguments, "--normalize", "device")
        self.assertEqual(on_device["weights_sha256"], on_host["weights_sha256"])

    def test_normalization_on_the_device_is_refused_where_the_host_needs_floats(self):
        self.assertIn("--mixup", self.refused(*self.data, "--normalize", "device", "--mixup", "0.2"))
        self.assertIn("random_erasing", self.refused(*self.data, "--normalize", "device", "--augment", "random_erasing"))
        self.assertIn("synthetic", self.refused("--dataset", "synthetic", "--normalize", "device"))
        self.assertIn("host", self.refused(*self.data, "--normalize", "card"))

    def test_averages_are_what_is_evaluated_and_saved(self):
        report = self.succeed("train", *NET, *self.data, "--steps", "6", "--ema", "0.9", "--model-dir", self.model_dir)
        plain = self.succeed("train", *NET, *self.data, "--steps", "6")
        self.assertNotEqual(report["weights_sha256"], plain["weights_sha256"])
        self.assertEqual(report["final_loss"], plain["final_loss"])
        evaluated = self.succeed("evaluate", "--model-dir", self.model_dir, "--json")
        self.assertAlmostEqual(evaluated["eval_loss"], report["eval_loss"], places=6)

    def test_each_option_changes_the_training(self):
        plain = self.succeed("train", *NET, *self.data, "--steps", "4", "--eval", "none")["weights_sha256"]
        for option in (("--warmup", "3"), ("--schedule", "cosine"), ("--schedule", "linear"), ("--clip-norm", "0.5"),
                       ("--schedule", "step", "--decay-steps", "2"), ("--schedule", "exponential", "--decay-steps", "2"),
                       ("--base-batch-size", "64"), ("--label-smoothing", "0.1"), ("--augment", "flip"),
                       ("--augment", "random_crop"), ("--augment", "random_resized_crop"), ("--freeze", "conv1/*"),
                       ("--augment", "random_resized_crop,rand_augment"), ("--augment", "random_resized_crop,trivial_augment"),
                       ("--augment", "random_erasing"), ("--mixup", "0.2"), ("--cutmix", "1"), ("--mixup", "0.2", "--cutmix", "1"),
                       ("--weight-decay", "0.1"), ("--weight-decay", "0.1", "--no-decay", "*/biases")):
            with self.subTest(option=option):
                report = self.succeed("train", *NET, *self.data, "--steps", "4", "--eval", "none", *option)
                self.assertNotEqual(report["weights_sha256"], plain)

    def test_a_scaled_rate_is_the_rate_for_its_batch(self):
        scaled = self.succeed("train", *NET, *self.data, "--steps", "3", "--eval", "none", "--base-batch-size", "4")
        doubled = self.succeed("train", *NET, *self.data, "--steps", "3", "--eval", "none", "--learning-rate", "0.02")
        self.assertEqual(scaled["weights_sha256"], doubled["weights_sha256"])

    def test_replicas_make_the_training_of_one(self):
        arguments = ("--model", "slim_net", "--image-size", "16", "--optimizer", "sgd", "--json", *self.data, "--steps", "6", "--global-batch-size", "8",
                     "--augment", "random_resized_crop,flip", "--label-smoothing", "0.1", "--clip-norm", "1")
        one = self.succeed("train", *arguments)
        two = self.succeed("train", *arguments, "--strategy", "mirrored", "--devices", "cpu:0,cpu:1")
        self.assertAlmostEqual(one["final_loss"], two["final_loss"], places=4)

    def test_the_order_in_memory_changes_last_bits_only(self):
        train = ("train", "--model", "cifar_resnet20", *NET[2:], *self.data)
        self.succeed(*train, "--steps", "2", "--eval", "none", "--model-dir", self.model_dir)
        plain = self.succeed(*train, "--steps", "4")
        last = self.succeed(*train, "--steps", "4", "--memory-format", "channels_last")
        resumed = self.succeed(*train, "--steps", "4", "--memory-format", "channels_last", "--model-dir", self.model_dir)
        self.assertEqual((plain["memory_format"], last["memory_format"], resumed["first_step"]), ("contiguous", "channels_last", 2))
        self.assertNotEqual(last["weights_sha256"], plain["weights_sha256"], "the flag has no effect")
        for report in (last, resumed):
            for key in ("final_loss", "eval_loss"):
                self.assertAlmostEqual(report[key], plain[key], places=3, msg=key)

    def test_equal_weights_have_equal_files_in_any_order_in_memory(self):
        files = {}
        for order in ("contiguous", "channels_last"):
            folder = self.folder / order
            self.succeed("train", *NET, *self.data, "--steps", "1", "--eval", "none", "--learning-rate", "0", "--memory-format", order, "--model-dir", folder)
            files[order] = (folder / "weights.safetensors").read_bytes()
        self.assertEqual(files["contiguous"], files["channels_last"])

    def test_flags_may_be_in_a_file(self):
        config = self.folder / "config.toml"
        config.write_text('# A comment.\nmodel = "slim_net"\nimage-size = 16\naugment = "random_resized_crop,flip"\nsteps = 3\n'
                          'overwrite = true\nwarmup = "1epochs"\n')
        report = self.succeed("train", "--config", config, *self.data, "--batch-size", "8", "--steps", "2", "--model-dir",
                              self.model_dir, "--eval", "none", "--json")
        self.assertEqual((report["steps"], report["model"], report["warmup"]), (2, "slim_net", "1epochs"))
        self.assertEqual(report["augment"], "random_resized_crop,flip")
        for text, words in (("[part]\nsteps = 3\n", "section"), ("steps = [1, 2]\n", "one value"), ("stepz = 1\n", "--stepz")):
            config.write_text(text)
            self.assertIn(words, self.refused(*self.data, "--config", config))
        self.assertIn("nowhere.toml", self.refused(*self.data, "--config", self.folder / "nowhere.toml"))

    def test_the_checked_in_configurations_are_flags(self):
        for config in CONFIGS.glob("*.toml"):
            with self.subTest(config=config.name):
                words = self.refused("--config", config, "--data-dir", self.folder)
                self.assertIn("no folder train", words)

    def test_fine_tuning_begins_with_other_weights_and_keeps_the_frozen_ones(self):
        first = self.folder / "first"
        self.succeed("train", *NET, *self.data, "--steps", "4", "--model-dir", first)
        three = self.folder / "three"
        write_folder(three, train=6, val=2, classes=("a", "b", "c"))
        self.succeed("train", *NET, "--dataset", "image_folder", "--data-dir", three, "--steps", "4", "--init-from", first,
                     "--init-exclude", "fc2/*", "--freeze", "conv1/*", "--model-dir", self.model_dir)
        before, after = (self.tensors(folder) for folder in (first, self.model_dir))
        for name in ("conv1/weights", "conv1/biases"):
            self.assertEqual(before[name], after[name], name)
        self.assertNotEqual(before["fc1/weights"], after["fc1/weights"])
        self.assertNotEqual(len(before["fc2/weights"]), len(after["fc2/weights"]))

    def tensors(self, folder):
        """The bytes of the saved weights, by name."""
        content = (folder / "weights.safetensors").read_bytes()
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + length])
        return {name: content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
                for name, entry in header.items() if name != "__metadata__"}

    def test_refuses_what_does_not_fit_before_any_step(self):
        self.assertIn("--classes is 3, and dataset image_folder has 2", self.refused(*self.data, "--classes", "3"))
        self.assertIn("no folder train", self.refused("--dataset", "image_folder", "--data-dir", self.folder))
        self.assertIn("28x28", self.refused(*self.data, "--model", "mnist_cnn"))
        self.assertIn("images have shape [1, 3, 16, 16]", self.refused(*self.data, "--model", "inception_v3"))
        idx_files.write(self.folder)
        self.refuse("train", "--model", "inception_v3", "--dataset", "mnist", "--data-dir", self.folder,
                    saying=["inception_v3: images have shape [1, 1, 28, 28]; expected [N, 3, height, width]"])
        self.assertIn("needs --decay-steps", self.refused(*self.data, "--schedule", "step"))
        self.assertIn("--warmup 9 leaves no step", self.refused(*self.data, "--schedule", "cosine", "--warmup", "9", "--steps", "9"))
        self.assertIn("fc3", self.refused(*self.data, "--freeze", "fc3/*"))
        self.assertIn("image_folder", self.refused("--dataset", "synthetic", "--augment", "random_resized_crop"))
        self.assertIn("give both", self.refused(*self.data, "--augment", "rand_augment"))
        self.assertIn("--accumulate", self.refused(*self.data, "--clip-norm", "1", "--accumulate", "2"))
        self.assertIn("has no auxiliary logits", self.refused(*self.data, "--aux-weight", "0.4"))
        self.assertIn("channels_last, contiguous", self.refused(*self.data, "--memory-format", "nhwc"))
        self.assertIn("leave out --memory-format", self.refused("--model", "mlp", "--dataset", "synthetic", "--memory-format", "channels_last"))

    def test_weights_of_another_model_are_refused_by_name(self):
        first = self.folder / "first"
        self.succeed("train", "--model", "mlp", "--dataset", "synthetic", "--steps", "1", "--eval", "none", "--json",
                     "--model-dir", first)
        self.assertIn("conv1", self.refused(*self.data, "--init-from", first))
        self.assertIn("nothing/*", self.refused(*self.data, "--init-from", first, "--init-exclude", "nothing/*"))

    def test_a_truncated_checkpoint_of_tensorflow_is_refused_by_name(self):
        names = ("saver.index", "saver.data-00000-of-00001")
        for damaged in names:
            with self.subTest(damaged=damaged):
                for name in names:
                    content = (BUNDLES / name).read_bytes()
                    (self.folder / name).write_bytes(content[:len(content) // 2] if name == damaged else content)
                self.assertIn(damaged, self.refused(*self.data, "--init-from", self.folder / "saver"))

    def test_an_image_that_was_written_by_half_is_refused_by_name(self):
        for split in ("train", "val"):
            path = self.images / split / "across" / "zzz.png"
            path.write_bytes(stripes(random.Random(1), True, 20)[:200])
            self.assertIn("zzz.png", self.refused(*self.data))
            path.unlink()


if __name__ == "__main__":
    unittest.main()

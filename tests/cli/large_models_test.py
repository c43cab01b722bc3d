"""The large image models train under every strategy, and each strategy goes on where another one has stopped. Takes minutes:
BRIGADE_SLOW_TESTS=1 runs it."""
import json
import os
import subprocess
import unittest

from brigade_process import COMMAND, DEADLINE, FRONT, CommandTest
from image_files import write_folder

RESNET = ("--model", "resnet50", "--image-size", "32")
INCEPTION = ("--model", "inception_v3", "--image-size", "75", "--aux-weight", "0", "--dropout", "0")
TWO_DEVICES = ("--devices", "cpu:0,cpu:1", "--allow-oversubscription")
# Flags of `brigade train`, and of `brigade launch` where the strategy has several processes.
STRATEGIES = {
    "one_device": (("--strategy", "one_device"), None),
    "mirrored": (("--strategy", "mirrored", *TWO_DEVICES), None),
    "central_storage": (("--strategy", "central_storage", *TWO_DEVICES), None),
    "pipeline": (("--strategy", "pipeline", *TWO_DEVICES, "--micro-batches", "2"), None),
    "towers": (("--strategy", "towers", *TWO_DEVICES, "--controller", "cpu:0"), None),
    "multi_worker_mirrored": (("--strategy", "multi_worker_mirrored"), ("--nproc", "2")),
    "parameter_server, sync": (("--strategy", "parameter_server", "--mode", "sync"), ("--ps", "1", "--workers", "2")),
    "parameter_server, async": (("--strategy", "parameter_server", "--mode", "async"), ("--ps", "1", "--workers", "2")),
}


@unittest.skipUnless(os.environ.get("BRIGADE_SLOW_TESTS"), "takes minutes; BRIGADE_SLOW_TESTS=1 runs it")
class LargeModels(CommandTest):
    def setUp(self):
        super().setUp()
        self.images = self.folder / "images"
        write_folder(self.images, train=8, val=4, size=32)

    def train(self, name, *arguments):
        """Trains under the strategy called so; returns the report, of the chief if there are several processes."""
        flags, launch = STRATEGIES[name]
        command = [COMMAND] if launch is None else [FRONT, "launch", *launch, "--prefix", "none", "--show-ranks", "0", "--", COMMAND]
        command += ["train", *flags, "--dataset", "image_folder", "--data-dir", self.images, "--optimizer", "sgd", "--learning-rate", "0.003",
                    "--momentum", "0.9", "--global-batch-size", "16", "--log-every", "1000", "--json", *arguments]
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=4 * DEADLINE)
        self.assertEqual(result.returncode, 0, f"{name}: {result.stderr[-2000:]}")
        return json.loads(next(line for line in result.stdout.splitlines() if line.startswith("{")))

    def go_on_from_strategy_to_strategy(self, model):
        """Each strategy begins a training, and the next one, in another model directory, goes on with its checkpoint."""
        names = list(STRATEGIES)
        for name, following in zip(names, names[1:] + names[:1]):
            with self.subTest(begins=name, goes_on=following):
                first, second = (self.folder / f"{name} {part}" for part in ("first", "second"))
                begun = self.train(name, *model, "--steps", 1, "--eval", "none", "--model-dir", first)
                ended = self.train(following, *model, "--steps", 12, "--eval", "none", "--resume", first, "--model-dir", second)
                print(f"{model[1]}: {name} {begun['final_loss']:.3f}, then {following} {ended['final_loss']:.3f}", flush=True)
                self.assertEqual(begun["steps"], ended["first_step"])
                self.assertGreaterEqual(ended["steps"], 12)
                self.assertLess(ended["final_loss"], 0.9 * begun["final_loss"])

    def test_resnet50(self):
        self.go_on_from_strategy_to_strategy(RESNET)

    def test_inception_v3(self):
        self.go_on_from_strategy_to_strategy(INCEPTION)


if __name__ == "__main__":
    unittest.main()

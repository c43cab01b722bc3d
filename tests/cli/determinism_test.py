"""The same command twice gives the same weights, bit for bit."""
import unittest

from brigade_process import MLP, SMALL, TWO_REPLICAS, CommandTest

CNN = ("--model", "mnist_cnn", *SMALL, "--batch-size", "8", "--steps", "4")


class Determinism(CommandTest):
    def weights(self, *arguments):
        return self.succeed("train", *arguments, "--eval", "none", "--json")["weights_sha256"]

    def test_dropout_on_two_replicas(self):
        command = (*CNN, *TWO_REPLICAS, "--dropout", "0.5")
        first = self.weights(*command)
        self.assertEqual(self.weights(*command), first)
        self.assertNotEqual(self.weights(*CNN, *TWO_REPLICAS), first)

    def test_random_crop_with_parallel_maps(self):
        command = (*MLP, *TWO_REPLICAS, "--steps", "40", "--augment", "random_crop")
        first = self.weights(*command, "--map-threads", "2")
        self.assertEqual(self.weights(*command, "--map-threads", "2"), first)
        self.assertEqual(self.weights(*command, "--map-threads", "1"), first)
        self.assertEqual(self.weights(*command, "--map-threads", "auto"), first)
        self.assertNotEqual(self.weights(*MLP, *TWO_REPLICAS, "--steps", "40"), first)

    def test_everything_together(self):
        command = (*CNN, *TWO_REPLICAS, "--dropout", "0.5", "--augment", "random_crop", "--map-threads", "2",
                   "--optimizer", "sgd", "--momentum", "0.9")
        self.assertEqual(self.weights(*command), self.weights(*command))

    def test_the_seed_changes_everything(self):
        command = (*MLP, "--steps", "3")
        self.assertNotEqual(self.weights(*command, "--seed", "1"), self.weights(*command, "--seed", "2"))


if __name__ == "__main__":
    unittest.main()

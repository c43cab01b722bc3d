"""What can be observed during a training: evaluations, curves, a trace of some steps."""
import json
import time
import unittest

from brigade_process import DEADLINE, MLP, SMALL, TWO_REPLICAS, CommandTest, run, started
from event_points import curves

STEPS = ("--steps", "10", "--json")
CNN = ("--model", "mnist_cnn", *SMALL, "--batch-size", "8", "--train-examples", "64", "--dropout", "0.5")


class Evaluations(CommandTest):
    def test_come_at_their_steps_in_the_report_and_for_tensorboard(self):
        report = self.succeed("train", *MLP, *STEPS, "--eval-every", "4steps", "--model-dir", self.model_dir)
        found = {one["step"]: one for one in report["evaluations"]}
        self.assertEqual(sorted(found), [4, 8, 10])
        self.assertEqual((found[10]["accuracy"], found[10]["loss"]), (report["eval_accuracy"], report["eval_loss"]))
        self.assertNotEqual(found[4]["loss"], found[8]["loss"])
        points = curves(self.model_dir / "eval")
        for tag in ("accuracy", "loss"):
            self.assertEqual(sorted(points[tag]), [4, 8, 10])
            for step, value in points[tag].items():
                self.assertAlmostEqual(value, found[step][tag], places=6)
        stored = json.loads((self.model_dir / "run.json").read_text())
        self.assertEqual(stored["result"]["evaluations"], report["evaluations"])

    def test_are_those_of_a_training_that_ends_there(self):
        report = self.succeed("train", *MLP, *STEPS, "--eval-every", "4steps", "--eval", "none")
        self.assertEqual([one["step"] for one in report["evaluations"]], [4, 8])
        self.assertIsNone(report["eval_accuracy"])
        ended = self.succeed("train", *MLP, "--steps", "8", "--json")
        self.assertEqual((report["evaluations"][1]["accuracy"], report["evaluations"][1]["loss"]),
                         (ended["eval_accuracy"], ended["eval_loss"]))

    def test_leave_no_trace_in_the_training(self):
        command = ("train", *CNN, *TWO_REPLICAS, "--steps", "6", "--eval", "none", "--json")
        self.assertEqual(self.succeed(*command, "--eval-every", "2steps")["weights_sha256"],
                         self.succeed(*command)["weights_sha256"])

    def test_of_a_resumed_run_are_those_of_the_unbroken_one(self):
        command = ("train", *MLP, "--eval-every", "3steps", "--json")
        wanted = self.succeed(*command, "--steps", "9")["evaluations"]
        self.succeed(*command, "--steps", "7", "--eval", "none", "--model-dir", self.model_dir)
        report = self.succeed(*command, "--steps", "9", "--model-dir", self.model_dir)
        self.assertEqual(report["evaluations"], wanted)
        self.assertEqual(sorted(curves(self.model_dir / "eval")["loss"]), [3, 6, 9])

    def test_come_by_time(self):
        with started("train", *MLP, "--steps", "100000000", "--eval-every", "0.01s", "--model-dir", self.model_dir) as process:
            end = time.monotonic() + DEADLINE
            while len(curves(self.model_dir / "eval")["accuracy"]) < 2 and time.monotonic() < end:
                time.sleep(0.01)  # only to look again; nothing depends on its length
            self.assertIsNone(process.poll())
        self.assertGreaterEqual(len(curves(self.model_dir / "eval")["accuracy"]), 2)

    def test_none_are_asked_for(self):
        report = self.succeed("train", *MLP, *STEPS, "--model-dir", self.model_dir)
        self.assertEqual(report["evaluations"], [])
        self.assertFalse((self.model_dir / "eval").exists())


class Curves(CommandTest):
    def points(self, *arguments):
        self.report = self.succeed("train", *MLP, *STEPS, "--eval", "none", "--model-dir", self.model_dir, *arguments)
        return curves(self.model_dir)

    def test_have_the_loss_at_the_steps_asked_for(self):
        points = self.points("--summaries-every", "3steps")
        self.assertEqual(sorted(points["loss"]), [1, 4, 7, 10])
        self.assertAlmostEqual(points["loss"][10], self.report["final_loss"], places=5)
        self.assertIn("global_step/sec", points)

    def test_have_the_first_step_alone_if_the_time_is_long(self):
        self.assertEqual(sorted(self.points("--summaries-every", "1h")["loss"]), [1])

    def test_come_at_each_step_if_the_time_is_short(self):
        self.assertEqual(sorted(self.points("--summaries-every", "1h", "--summaries-every", "1step")["loss"]),
                         list(range(1, 11)))

    def test_are_not_written_on_request(self):
        self.points("--summaries-every", "never")
        self.assertEqual(list(self.model_dir.glob("events*")), [])


class Profile(CommandTest):
    def trace(self, name):
        [path] = (self.model_dir / "profile").iterdir()
        self.assertEqual(path.name, name)
        trace = json.loads(path.read_text())
        return trace["traceEvents"] if isinstance(trace, dict) else trace

    def test_has_the_steps_asked_for(self):
        self.succeed("train", *MLP, *STEPS, "--profile-steps", "3:6", "--eval", "none", "--model-dir", self.model_dir)
        events = [event for event in self.trace("timeline-6.json") if event["ph"] == "X"]
        steps = [event for event in events if event["name"] == "step"]
        self.assertEqual(len(steps), 4)
        for step in steps:
            inside = {event["name"] for event in events
                      if step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"]}
            self.assertLessEqual({"next batch", "forward, backward, update"}, inside)

    def test_is_written_where_the_training_ends(self):
        self.succeed("train", *MLP, *STEPS, "--profile-steps", "9:1000", "--eval", "none", "--model-dir", self.model_dir)
        self.assertEqual(sum(event["name"] == "step" for event in self.trace("timeline-10.json")), 2)


class ModelDirectory(CommandTest):
    def test_holds_everything(self):
        command = ("train", *MLP, *STEPS, "--model-dir", self.model_dir, "--eval-every", "5steps", "--profile-steps", "2:3")
        self.succeed(*command)
        names = {path.name.split(".tfevents.")[0] for path in self.model_dir.iterdir()}
        self.assertEqual(names, {"checkpoints", "eval", "events.out", "profile", "run.json", "weights.safetensors"})

    def test_that_is_replaced_keeps_nothing_of_the_run_before(self):
        command = ("train", *MLP, "--model-dir", self.model_dir)
        self.succeed(*command, *STEPS, "--eval-every", "5steps", "--profile-steps", "2:3")
        self.succeed(*command, "--steps", "3", "--summaries-every", "never", "--eval", "none", "--overwrite", "--json")
        left = sorted(path.name for path in self.model_dir.rglob("*") if path.is_file() and "ckpt" not in str(path))
        self.assertEqual(left, ["latest", "run.json", "weights.safetensors"])
        self.assertEqual(sorted(path.name for path in (self.model_dir / "checkpoints").glob("ckpt-*")), ["ckpt-0", "ckpt-3"])

    def test_weights_are_those_of_the_last_checkpoint(self):
        report = self.succeed("train", *MLP, *STEPS, "--model-dir", self.model_dir)
        seen = self.succeed("inspect", self.model_dir / "weights.safetensors", "--json")
        self.assertEqual(seen["metadata"]["step"], "10")
        compared = json.loads(run("inspect", self.model_dir, self.model_dir / "weights.safetensors", "--json").stdout)
        self.assertEqual((compared["equal_tensors"], compared["value_differs"], compared["only_in_b"]),
                         (len(seen["tensors"]), [], []))
        evaluated = self.succeed("evaluate", "--model-dir", self.model_dir, "--json")
        self.assertEqual(evaluated["weights_sha256"], report["weights_sha256"])
        self.assertEqual((evaluated["model"], evaluated["dataset"], evaluated["eval_accuracy"]),
                         ("mlp", "synthetic", report["eval_accuracy"]))


if __name__ == "__main__":
    unittest.main()

"""`brigade report`: the page about runs that `brigade train` wrote, ended, broken or none; shown in Chromium where it is installed."""
import json
import re
import shutil
import signal
import subprocess
import unittest

from brigade_process import DEADLINE, MLP, TWO_REPLICAS, CommandTest, run, started

CHROMIUM = shutil.which("chromium")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


class Report(CommandTest):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "page.html"

    def train(self, name, *flags):
        self.succeed("train", *MLP, *flags, "--model-dir", self.folder / name, "--json")
        return self.folder / name

    def report(self, *directories):
        result = run("report", *directories, "--output", self.page)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith(f"{self.page}: {len(directories)} run"), result.stdout)
        return data_of(self.page.read_text(encoding="utf-8"))

    def rendered(self):
        """The page's text after its script has run."""
        if CHROMIUM is None:
            self.skipTest("Chromium is not installed (Debian: chromium)")
        result = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/browser",
                                 "--virtual-time-budget=3000", "--dump-dom", self.page.as_uri()],
                                capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_run_with_all_that_it_records(self):
        run_dir = self.train("first", *TWO_REPLICAS, "--steps", 24, "--summaries-every", "4steps", "--eval-every", "8steps")
        found = self.report(run_dir)["runs"][0]
        curves = {curve["tag"]: curve for curve in found["training"]}
        for tag in ("loss", "global_step/sec", "memory/resident_bytes", "time_outside_steps", "step_shares/replica_1/compute"):
            self.assertIn(tag, curves)
        self.assertEqual(curves["loss"]["steps"], [1, 5, 9, 13, 17, 21])
        self.assertGreater(min(curves["memory/resident_bytes"]["values"]), 1e7)
        self.assertEqual([curve["tag"] for curve in found["evaluation"]], ["accuracy", "loss", "top_5_accuracy"])
        self.assertEqual((found["state"], found["total_steps"], found["devices"]), ("finished", 24, ["cpu:0", "cpu:1"]))
        self.assertIn("processor", dict(found["machine"]))
        self.assertEqual(dict(found["configuration"])["model"], "mlp")
        self.assertEqual([each["step"] for each in found["checkpoints"]], [0, 24])
        self.assertEqual((len(found["starts"]), found["missing"]), (1, []))
        shown = self.rendered()
        for words in ("Loss and metrics", "Where steps spend their time", "Stalls by cause", "Starts and restarts"):
            self.assertIn(f">{words}</h2>", shown)

    def test_hostile_names_are_text(self):
        hostile = '</script><script>document.title="broken"</script><img src=x onerror="document.title=1">\'&\u202e'
        run_dir = self.train("first", "--steps", 2)
        path = run_dir / "run.json"
        stored = json.loads(path.read_text())
        stored["configuration"]["model"] = hostile
        stored["configuration"][hostile] = hostile
        path.write_text(json.dumps(stored))
        moved = run_dir.rename(self.folder / "<b>'\"&\u202e")
        found = self.report(moved)["runs"][0]
        self.assertEqual(found["name"], "<b>'\"&\\u202e")  # as a terminal would show it
        page = self.page.read_text(encoding="utf-8")
        self.assertEqual(page.count("<script"), 2)
        self.assertNotIn("\u202e", page)
        shown = self.rendered()
        self.assertIn("<title>Training report: &lt;b&gt;", shown)
        self.assertNotIn("<img", shown)

    def test_several_runs(self):
        runs = [self.train(name, "--steps", 4, "--learning-rate", rate) for name, rate in (("a", 0.1), ("b", 0.2))]
        self.assertEqual([each["name"] for each in self.report(*runs)["runs"]], ["a", "b"])
        written = self.succeed("report", *runs, "--output", self.page, "--json")
        self.assertEqual((written["file"], written["bytes"]), (str(self.page), self.page.stat().st_size))
        self.assertEqual([(each["name"], each["model_dir"]) for each in written["runs"]], [("a", str(runs[0])), ("b", str(runs[1]))])

    def test_a_run_that_was_killed_and_resumed(self):
        flags = (*MLP, "--steps", "100000", "--save-every", "5steps", "--summaries-every", "2steps", "--log-every", "0", "--model-dir", self.model_dir)
        with started("train", *flags) as training:
            while "step 12/" not in training.stderr.readline():
                self.assertIsNone(training.poll())
            self.assertEqual(self.report(self.model_dir)["runs"][0]["state"], "running")
            while not self.report(self.model_dir)["runs"][0]["starts"]:  # event files are flushed every two seconds
                self.assertTrue(training.stderr.readline())
            training.send_signal(signal.SIGKILL)
            training.wait(DEADLINE)
        killed = self.report(self.model_dir)["runs"][0]
        self.assertEqual(killed["state"], "ended without a result")
        self.assertIn("resumes it", " ".join(killed["missing"]))
        with started("train", *flags) as training:
            while not re.match(r"step \d+/", training.stderr.readline()):
                self.assertIsNone(training.poll())
            training.send_signal(signal.SIGTERM)
            self.assertEqual(training.wait(DEADLINE), 75)
        resumed = self.report(self.model_dir)["runs"][0]
        self.assertEqual((resumed["state"], len(resumed["starts"])), ("interrupted", 2))
        self.assertGreater(resumed["starts"][1]["step"], 1)
        self.assertEqual(resumed["starts"][1]["process"], str(training.pid))

    def test_parts_that_are_gone_or_broken_are_named(self):
        run_dir = self.train("first", "--steps", 4)
        (run_dir / "run.json").write_text("{")
        for path in run_dir.glob("events.out.tfevents.*"):
            path.write_bytes(path.read_bytes()[:40] + b"broken" + bytes(60))
        newest = sorted((run_dir / "checkpoints").glob("ckpt-*"))[-1]
        (newest / "manifest.json").write_text("{}")
        found = self.report(run_dir)["runs"][0]
        text = "\n".join(found["missing"])
        self.assertIn("not a valid run.json", text)
        self.assertIn("tfevents", text)
        self.assertTrue([each for each in found["checkpoints"] if each["problem"]])

    def test_what_is_no_run_is_refused(self):
        self.refuse("report", self.folder, saying=["not a model directory"])
        self.refuse("report", self.folder / "absent", saying=["does not exist"])
        self.refuse("report", __file__, saying=["not a folder"])
        run_dir = self.train("first", "--steps", 2)
        self.refuse("report", run_dir, "--output", self.folder, saying=["not a file"])
        self.refuse("report", run_dir, "--output", self.folder / "absent" / "page.html", saying=["absent"])


if __name__ == "__main__":
    unittest.main()

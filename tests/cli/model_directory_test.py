"""A model directory belongs to one training at a time, which removes and replaces nothing that it has not made, writes nowhere else, and
does not start over if a run has made steps."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from brigade_process import COMMAND, DEADLINE, MLP, CommandTest, run, started

# A library that makes locks fail; not under sanitizers, which must be loaded first.
FAILING_SYNC = os.environ.get("BRIGADE_FAILING_SYNC")
RUN = ("train", *MLP, "--eval", "none", "--json")
LONG = ("train", *MLP, "--eval", "none", "--json", "--epochs", "100000")


class ModelDirectoryTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.checkpoints = self.model_dir / "checkpoints"
        self.elsewhere = self.folder / "elsewhere"
        self.elsewhere.mkdir()
        for name in ("precious", "manifest.json", "variables-00001-of-00001.safetensors", "events.out.tfevents.1.host.1.0",
                     "timeline-3.json"):
            (self.elsewhere / name).write_text("mine")

    def check_elsewhere(self):
        self.assertEqual(len(list(self.elsewhere.iterdir())), 5)

    def train(self, *arguments):
        return self.succeed(*RUN, "--model-dir", self.model_dir, *arguments)

    def refuse_here(self, *arguments, saying):
        self.refuse(*RUN, "--model-dir", self.model_dir, *arguments, saying=[str(self.model_dir), *saying])

    def wait_for_checkpoint(self, process, beyond=0, checkpoints=None):
        """Waits until a checkpoint after step `beyond` is complete."""
        checkpoints = checkpoints or self.checkpoints
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            self.assertIsNone(process.poll(), "the training has ended")
            found = os.listdir(checkpoints) if checkpoints.exists() else []
            if any(name.startswith("ckpt-") and int(name[5:]) > beyond for name in found):
                return
            time.sleep(0.002)  # only to look again; nothing depends on its length
        self.fail("no checkpoint came")

    @contextlib.contextmanager
    def training(self, *arguments):
        """A running training that saves at each step, and has saved some."""
        with started(*LONG, "--save-every", "1step", "--model-dir", self.model_dir, *arguments) as process:
            self.wait_for_checkpoint(process, 2)
            yield process


class Links(ModelDirectoryTest):
    """What links lead to is neither removed nor replaced."""

    def link(self, name, target=None):
        (self.model_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (self.model_dir / name).symlink_to(target or self.elsewhere)

    def test_in_the_place_of_what_a_crash_left(self):
        self.train("--steps", "3")
        names = ("checkpoints/.ckpt-9.saving", "checkpoints/.ckpt-2.removing", "checkpoints/.ckpt-6.saving")
        for name in names:
            self.link(name)
        result = run(*RUN, "--model-dir", self.model_dir, "--steps", "6", "--save-every", "1step", "--keep-last", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_elsewhere()
        for name in names:
            self.assertTrue((self.model_dir / name).is_symlink())
            self.assertIn(f"{pathlib.Path(name).name} is a symbolic link", result.stderr)

    def test_in_the_place_of_what_a_run_has(self):
        for name in ("checkpoints", "checkpoints/ckpt-2", "eval", "profile", "run.json", "weights.safetensors", "checkpoints/latest",
                     "run.lock"):
            is_file = "." in name or "latest" in name
            shutil.rmtree(self.model_dir, ignore_errors=True)
            self.train("--steps", "3", "--profile-steps", "1:2")
            path = self.model_dir / name
            if path.exists():
                path.unlink() if is_file else shutil.rmtree(path)
            self.link(name, self.elsewhere / "precious" if is_file else None)
            for overwrite in ((), ("--overwrite",)):
                with self.subTest(name=name, overwrite=overwrite):
                    self.refuse_here("--steps", "5", *overwrite, saying=[name, "is a symbolic link", "another --model-dir"])
                    self.check_elsewhere()
                    self.assertTrue(path.is_symlink())
                    self.assertEqual((self.elsewhere / "precious").read_text(), "mine")

    def test_and_files_of_others_among_the_checkpoints_stay(self):
        self.train("--steps", "3", "--save-every", "1step")
        self.link("checkpoints/ckpt-1/more")
        self.link("checkpoints/mine")
        (self.checkpoints / "notes.txt").write_text("mine")
        report = self.train("--steps", "5", "--overwrite")
        self.assertEqual(report["first_step"], 0)
        self.check_elsewhere()
        self.assertEqual((self.checkpoints / "notes.txt").read_text(), "mine")
        self.assertTrue((self.checkpoints / "mine").is_symlink())
        self.assertEqual(sorted(path.name for path in self.checkpoints.glob("ckpt-*")), ["ckpt-0", "ckpt-5"])

    def test_event_files_of_another_program_stay(self):
        for overwrite in ((), ("--overwrite",)):
            with self.subTest(overwrite=overwrite):
                self.model_dir = self.folder / f"logs{len(overwrite)}"
                self.model_dir.mkdir()
                (self.model_dir / "events.out.tfevents.1.host.1.0").write_text("another's")
                self.train("--steps", "2", *overwrite)
                self.assertEqual((self.model_dir / "events.out.tfevents.1.host.1.0").read_text(), "another's")

    def test_to_the_model_directory_itself_may_be(self):
        self.folder.joinpath("disk").mkdir()
        self.model_dir.symlink_to(self.folder / "disk")
        self.train("--steps", "2")
        self.train("--steps", "3", "--overwrite")
        self.assertEqual(sum(name.startswith("events.") for name in os.listdir(self.folder / "disk")), 1)


class Lock(ModelDirectoryTest):
    def test_a_second_training_is_refused_by_the_name_of_the_first(self):
        with self.training() as process:
            for arguments in ((), ("--overwrite",), ("--seed", "7", "--overwrite")):
                with self.subTest(arguments=arguments):
                    self.refuse(*LONG, "--model-dir", self.model_dir, *arguments,
                                saying=[str(self.model_dir), "is in use by process", f" {process.pid} ", os.uname().nodename])
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 75)
        self.assertFalse((self.model_dir / "run.lock").exists())

    def test_of_two_at_the_same_time_one_trains(self):
        for attempt in range(3):
            with self.subTest(attempt=attempt):
                command = (*RUN, "--model-dir", self.folder / f"run{attempt}", "--steps", "60", "--save-every", "1step")
                with started(*command) as first, started(*command) as second:
                    ends = [process.communicate(timeout=DEADLINE) for process in (first, second)]
                    codes = sorted(process.returncode for process in (first, second))
                # The second may come so late that there is nothing left to do.
                self.assertIn(codes, ([0, 2], [0, 0]), ends)
                if codes == [0, 2]:
                    self.assertIn("is in use by process", "".join(errors for _, errors in ends))

    def test_of_a_killed_training_is_none(self):
        with self.training() as process:
            process.kill()
            process.wait(DEADLINE)
        self.assertTrue((self.model_dir / "run.lock").exists())
        with started(*LONG, "--model-dir", self.model_dir) as process:
            line = process.stderr.readline()
            while line and "resuming from step" not in line:
                line = process.stderr.readline()
            self.assertIn("resuming from step", line)


    @unittest.skipUnless(FAILING_SYNC, "a build with sanitizers")
    def test_where_there_are_none_a_warning_says_so(self):
        for _ in range(2):
            command = [COMMAND, *map(str, (*RUN, "--model-dir", self.model_dir, "--steps", "3"))]
            result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL,
                                    env={**os.environ, "LD_PRELOAD": FAILING_SYNC, "FAILING_FLOCK": "1"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr.count("run.lock cannot be locked: No locks available"), 1, result.stderr)


class AnotherRunsCheckpoints(ModelDirectoryTest):
    def test_of_another_seed_are_refused(self):
        other = self.folder / "other"
        self.succeed(*RUN, "--model-dir", other, "--steps", "5", "--seed", "1")
        self.train("--steps", "3", "--seed", "2")
        shutil.rmtree(self.checkpoints)
        shutil.copytree(other / "checkpoints", self.checkpoints)
        before = (self.model_dir / "run.json").read_text()
        self.refuse_here("--steps", "8", "--seed", "2", saying=["ckpt-5", "seed 1", "seed is 2", "--overwrite"])
        self.assertEqual((self.model_dir / "run.json").read_text(), before)

    def test_are_not_gone_on_with_after_an_overwriting_run_was_killed(self):
        wanted = self.succeed(*RUN, "--model-dir", self.folder / "wanted", "--steps", "40", "--seed", "7")
        with self.training("--seed", "1"):
            self.refuse_here("--steps", "40", "--seed", "7", "--overwrite", saying=["is in use"])
        with started(*RUN, "--model-dir", self.model_dir, "--steps", "1000000", "--seed", "7", "--overwrite") as process:
            self.wait_for_own_run(process)
            process.kill()
            process.wait(DEADLINE)
        report = self.train("--steps", "40", "--seed", "7", "--overwrite")
        self.assertEqual((report["first_step"], report["weights_sha256"]), (0, wanted["weights_sha256"]))

    def wait_for_own_run(self, process):
        """Until run.json is that of seed 7."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            self.assertIsNone(process.poll(), "the training has ended")
            with contextlib.suppress(FileNotFoundError):
                if json.loads((self.model_dir / "run.json").read_text())["configuration"]["seed"] == 7:
                    return
            time.sleep(0.002)  # only to look again
        self.fail("the run has not begun")


class Gone(ModelDirectoryTest):
    """A model directory that is not there any more fails the training, which writes nowhere else."""

    def check_end(self, process):
        output, errors = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, output), (1, ""), errors)
        last = errors.splitlines()[-1]
        self.assertTrue(last.startswith("brigade: error: "), errors)
        self.assertIn(str(self.model_dir), last)

    def test_renamed(self):
        with self.training() as process:
            moved = self.folder / "moved"
            self.model_dir.rename(moved)
            self.check_end(process)
        self.assertFalse(self.model_dir.exists())
        newest = max(int(name[5:]) for name in os.listdir(moved / "checkpoints") if name.startswith("ckpt-"))
        report = self.succeed(*RUN, "--model-dir", moved, "--steps", str(newest + 3))
        self.assertEqual(report["first_step"], newest)

    def test_removed(self):
        with self.training() as process:
            self.remove_while_it_is_filled()
            self.check_end(process)
        self.assertFalse(self.model_dir.exists())

    def remove_while_it_is_filled(self):
        end = time.monotonic() + DEADLINE
        self.model_dir.rename(self.folder / "trash")
        while (self.folder / "trash").exists() and time.monotonic() < end:
            shutil.rmtree(self.folder / "trash", ignore_errors=True)

    def test_replaced_by_another(self):
        with self.training() as process:
            self.model_dir.rename(self.folder / "moved")
            shutil.copytree(self.folder / "moved", self.model_dir, ignore=shutil.ignore_patterns(".*"))  # a save in progress
            before = self.checkpoints_there()
            self.check_end(process)
        self.assertEqual(self.checkpoints_there(), before)

    def checkpoints_there(self):
        """What is at the path. A save in progress when the directory moved has temporary files, which it may finish."""
        names = (str(path.relative_to(self.model_dir)) for path in self.model_dir.rglob("*"))
        return sorted(name for name in names if "/." not in f"/{name}" and not name.endswith("latest"))

    def test_read_only(self):
        def become_nobody():
            if os.geteuid() == 0:  # who may write everywhere
                os.setgid(65534)
                os.setuid(65534)
        self.folder.chmod(0o777)
        command = (*LONG, "--save-every", "1step", "--model-dir", self.model_dir)
        with subprocess.Popen([COMMAND, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, preexec_fn=become_nobody) as process:
            try:
                self.wait_for_checkpoint(process, 2)
                self.checkpoints.chmod(0o555)
                self.check_end(process)
            finally:
                process.kill()
                self.checkpoints.chmod(0o755)

    def test_unmounted(self):
        self.model_dir.mkdir()
        command = " ".join(map(str, (COMMAND, *LONG, "--save-every", "1step", "--model-dir", self.model_dir)))
        script = f"mount -t tmpfs none {self.model_dir} && touch {self.model_dir}/mounted && exec {command}"
        with subprocess.Popen(["unshare", "--mount", "--map-root-user", "bash", "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as process:
            try:
                inside = pathlib.Path(f"/proc/{process.pid}/root") / self.model_dir.relative_to("/")
                if not self.is_mounted(process, inside):
                    self.skipTest("no mount namespaces here")
                self.wait_for_checkpoint(process, 2, inside / "checkpoints")
                subprocess.run(["nsenter", "--target", str(process.pid), "--user", "--mount", "--preserve-credentials", "umount",
                                "--lazy", str(self.model_dir)], check=True, timeout=DEADLINE)
                self.check_end(process)
            finally:
                process.kill()
        self.assertEqual(os.listdir(self.model_dir), [])

    def is_mounted(self, process, inside):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                if (inside / "mounted").exists():
                    return True
            time.sleep(0.002)  # only to look again
        return False


class ComeFurther(ModelDirectoryTest):
    """A run that has made steps does not start over by itself."""

    def break_manifests(self):
        for path in self.checkpoints.glob("ckpt-*/manifest.json"):
            path.write_text(path.read_text()[:-20])

    def files(self):
        return {path: path.read_bytes() for path in self.model_dir.rglob("*") if path.is_file()}

    def test_with_all_checkpoints_broken_is_refused(self):
        self.train("--steps", "6", "--save-every", "2steps")
        self.break_manifests()
        before = self.files()
        self.refuse_here("--steps", "9", saying=["its 6 steps", "none of its checkpoints is complete", "--overwrite"])
        self.assertEqual(self.files(), before)

    def test_with_all_checkpoints_missing_is_refused(self):
        self.train("--steps", "6")
        shutil.rmtree(self.checkpoints)
        before = self.files()
        self.refuse_here("--steps", "9", saying=["its 6 steps", "there is no checkpoint", "--overwrite"])
        self.assertEqual(self.files(), before)

    def test_killed_with_all_checkpoints_missing_is_refused(self):
        with self.training() as process:
            process.kill()
            process.wait(DEADLINE)
        shutil.rmtree(self.checkpoints)
        for _ in range(2):
            self.refuse(*LONG, "--model-dir", self.model_dir, saying=["there is no checkpoint", "--overwrite"])

    def test_starts_over_if_asked_and_keeps_broken_checkpoints(self):
        self.train("--steps", "6", "--save-every", "2steps")
        self.break_manifests()
        report = self.train("--steps", "9", "--overwrite", "--keep-last", "1")
        self.assertEqual(report["first_step"], 0)
        for step in (0, 2, 4, 6):
            self.assertTrue(list((self.checkpoints / f"ckpt-{step}.broken").glob("variables-*.safetensors")), step)

    def test_keeps_a_broken_checkpoint_aside(self):
        self.train("--steps", "6", "--save-every", "2steps")
        manifest = self.checkpoints / "ckpt-6" / "manifest.json"
        manifest.write_text("{")
        report = self.train("--steps", "9", "--save-every", "1step", "--keep-last", "1")
        self.assertEqual(report["first_step"], 4)
        self.assertEqual((self.checkpoints / "ckpt-6.broken" / "manifest.json").read_text(), "{")
        self.assertEqual(sorted(path.name for path in self.checkpoints.glob("ckpt-*")), ["ckpt-6.broken", "ckpt-9"])

    def test_is_not_finished_with_other_weights(self):
        wanted = self.train("--steps", "6")
        weights = self.model_dir / "weights.safetensors"
        data = bytearray(weights.read_bytes())
        data[-9] ^= 1
        weights.write_bytes(data)
        self.refuse_here("--steps", "6", saying=["weights", wanted["weights_sha256"], "--overwrite"])
        weights.unlink()
        self.assertEqual(self.train("--steps", "6")["weights_sha256"], wanted["weights_sha256"])


if __name__ == "__main__":
    unittest.main()

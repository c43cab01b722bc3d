"""The scripts in tools/ that ./dev relies on."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import demo
import gpu_session
import install_python
import install_torch
import list_skips

VERSION_HEADER = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR {}\n#define TORCH_VERSION_PATCH 0\n"


class InstallTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.deps = pathlib.Path(folder.name)
        self.site = self.site_of(install_torch.CPU)

    def site_of(self, edition):
        site = self.deps / edition.folder
        for name in edition.required:
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(VERSION_HEADER.format(11) if name == install_torch.VERSION_HEADER else "")
        return site

    def is_complete(self):
        return install_torch.is_complete(install_torch.CPU, self.site)

    def test_a_whole_tree_without_stamp_gets_one(self):
        self.assertTrue(self.is_complete())
        self.assertEqual(install_torch.versions(install_torch.CPU), (self.site / install_torch.STAMP).read_text())

    def test_another_version_is_not_complete(self):
        (self.site / install_torch.VERSION_HEADER).write_text(VERSION_HEADER.format(10))
        self.assertFalse(self.is_complete())

    def test_another_stamp_is_not_complete(self):
        (self.site / install_torch.STAMP).write_text("torch==2.10.0\n")
        self.assertFalse(self.is_complete())

    def test_every_missing_file_makes_an_edition_incomplete(self):
        for edition in (install_torch.CPU, install_torch.CUDA):
            site = self.site_of(edition)
            self.assertTrue(install_torch.is_complete(edition, site))
            for name in edition.required:
                text = (site / name).read_text()
                (site / name).unlink()
                self.assertFalse(install_torch.is_complete(edition, site), name)
                self.assertEqual([name], install_torch.missing_files(edition, site))
                (site / name).write_text(text)

    def test_every_required_file_is_unpacked(self):
        for edition in (install_torch.CPU, install_torch.CUDA):
            for name in edition.required:
                self.assertTrue(edition.wanted.fullmatch(name), name)

    def test_a_cpu_build_wants_no_cuda_library_of_torch(self):
        wanted = install_torch.CPU.wanted.fullmatch
        self.assertTrue(wanted("torch/include/ATen/ATen.h"))
        self.assertTrue(wanted("nvidia/cu13/lib/libcudart.so.13"))
        self.assertFalse(wanted("torch/lib/libtorch_cuda.so"))
        self.assertFalse(wanted("nvidia/cu13/lib/libcudart_static.a"))
        self.assertFalse(wanted("nvidia/nccl/lib/libnccl.so.2"))

    def test_a_gpu_build_is_a_separate_folder_from_the_same_torch(self):
        self.assertNotEqual(install_torch.CPU.folder, install_torch.CUDA.folder)
        self.assertEqual(install_torch.CPU.wheels[0], install_torch.CUDA.wheels[0])
        self.assertFalse(install_torch.CUDA.wanted.fullmatch("torch/lib/libtorch_python.so"))

    def test_wheels_without_a_part_are_refused_and_the_part_is_named(self):
        def download(edition, folder):
            wheel = folder / "torch.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name in edition.required[:-1]:
                    archive.writestr(name, "")
            return [wheel]

        with mock.patch.object(install_torch, "download", download), contextlib.redirect_stderr(io.StringIO()), \
                self.assertRaisesRegex(SystemExit, install_torch.CUDA.required[-1]):
            install_torch.install(install_torch.CUDA, self.deps)
        self.assertFalse((self.deps / install_torch.CUDA.folder).exists())


class InstallPython(unittest.TestCase):
    def run_main(self, folder, result):
        with mock.patch.object(sys, "argv", ["install_python.py", folder]), \
                mock.patch.object(subprocess, "run", side_effect=result) as run, \
                contextlib.redirect_stderr(io.StringIO()) as said:
            install_python.main()
        return run.call_count, said.getvalue()

    def test_without_network_it_says_what_is_lost_and_continues(self):
        with tempfile.TemporaryDirectory() as folder:
            calls, said = self.run_main(folder, subprocess.CalledProcessError(1, "pip"))
            self.assertEqual((1, ["lock"]), (calls, os.listdir(folder)))
            self.assertIn("will be skipped", said)

    def test_installs_once_and_again_for_other_versions(self):
        with tempfile.TemporaryDirectory() as folder:
            made = lambda command, **_: pathlib.Path(command[command.index("--target") + 1]).mkdir()
            self.assertEqual(1, self.run_main(folder, made)[0])
            self.assertEqual(0, self.run_main(folder, made)[0])
            (pathlib.Path(folder) / "python" / install_python.STAMP).write_text("cpython-27\n")
            self.assertEqual(1, self.run_main(folder, made)[0])


class ListSkips(unittest.TestCase):
    def test_names_each_skipped_case_once_with_its_reason(self):
        log = """[ RUN      ] A.Skips
/x/y_test.cpp:5: Skipped
needs two cores,
and hwloc
[  SKIPPED ] A.Skips (0 ms)
[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.SaysNothing
/x/y_test.cpp:9: Skipped

[  SKIPPED ] A.SaysNothing (0 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.Skips
[  SKIPPED ] A.SaysNothing
"""
        self.assertEqual([("A.Skips", "needs two cores, and hwloc"), ("A.SaysNothing", "no reason given")],
                         list(list_skips.skips(log.splitlines(keepends=True))))

    def test_skips_of_unittest_are_listed_too(self):
        log = ("test_a (m.X.test_a) ... ok\n"
               "test_b (m.X.test_b) ... skipped 'root may write everywhere'\n")
        self.assertEqual([("m.X.test_b", "root may write everywhere")],
                         list(list_skips.skips(log.splitlines(keepends=True))))


class GpuSession(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, script):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def run_steps(self, steps, seconds=60):
        with contextlib.redirect_stdout(io.StringIO()):
            done = gpu_session.run(self.folder, self.folder / "out", self.folder / "torch", seconds, steps)
        return done, json.loads((self.folder / "out" / "results.json").read_text())

    def test_packs_stripped_programs_and_the_libraries_that_are_not_everywhere(self):
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        shutil.copyfile(sys.executable, build / "bin" / "brigade")
        shutil.copymode(sys.executable, build / "bin" / "brigade")
        size = gpu_session.pack(build, self.folder / "packed", ["brigade"])
        self.assertLess(0, size)
        self.assertTrue((self.folder / "packed" / "gpu_session.py").is_file())
        self.assertFalse(any((self.folder / "packed" / "lib").glob("libc.so*")))
        with self.assertRaisesRegex(gpu_session.SessionFailed, "lacks gpu_tests"):
            gpu_session.pack(build, self.folder / "packed", ["brigade", "gpu_tests"])
        with mock.patch.object(gpu_session, "MOST_BYTES", 1000), \
                self.assertRaisesRegex(gpu_session.SessionFailed, "at most"):
            gpu_session.pack(build, self.folder / "packed", ["brigade"])

    def test_a_later_call_continues_and_what_failed_is_kept(self):
        self.program("good", 'echo "{\\"images_per_second\\": $1}"')
        self.program("bad", 'echo "no card"; exit 3')
        self.program("slow", "exec sleep 60")
        step = gpu_session.Step
        steps = [step("x [1]", ("good", "10"), 20, measures=True), step("x [2]", ("good", "30"), 20, measures=True),
                 step("broken", ("bad",), 20), step("hung", ("slow",), 0.2), step("gone", ("none",), 20),
                 step("late", ("good", "1"), 500)]
        done, results = self.run_steps(steps)
        self.assertFalse(done)
        self.assertNotIn("late", results)
        self.assertEqual("exit 3", results["broken"]["why"])
        self.assertIn("no end within", results["hung"]["why"])
        self.assertIn("does not start", results["gone"]["why"])
        done, results = self.run_steps(steps, seconds=600)
        self.assertTrue(done)
        lines = "\n".join(gpu_session.table(results))
        self.assertIn("| x | 20 | 10-30 | 2 |", lines)
        self.assertIn("failed: broken: exit 3", lines)
        self.assertIn("passed: late", lines)

    def test_a_step_may_hide_the_card(self):
        self.program("ask", 'echo "{\\"seen\\": \\"$CUDA_VISIBLE_DEVICES\\"}"')
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0"}):
            _, results = self.run_steps([gpu_session.Step("hidden", ("ask",), 20, hides_card=True),
                                         gpu_session.Step("shown", ("ask",), 20)])
        self.assertEqual(["", "0"], [results[name]["report"]["seen"] for name in ("hidden", "shown")])

    def test_a_step_may_run_under_another_program(self):
        self.program("good", "echo good")
        _, results = self.run_steps([gpu_session.Step("under env", ("good",), 20, under=("env", "A=1")),
                                     gpu_session.Step("under nothing", ("good",), 20, under=("no-such-program",))])
        self.assertTrue(results["under env"]["passed"])
        self.assertIn("does not start", results["under nothing"]["why"])

    def test_the_order_fits_into_thirty_minutes_of_calls(self):
        self.assertLessEqual(max(step.seconds for step in gpu_session.STEPS), 570)
        self.assertEqual("devices", gpu_session.STEPS[0].name)
        self.assertEqual(len(gpu_session.STEPS), len({step.name for step in gpu_session.STEPS}))


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def brigade(self, script):
        path = self.folder / "brigade"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return str(path)

    def run_demo(self, script, cores):
        output = io.StringIO()
        with mock.patch("os.sched_getaffinity", return_value=set(range(cores))), contextlib.redirect_stdout(output):
            lines = demo.run(self.brigade(script), self.folder)
        return output.getvalue(), "\n".join(lines)

    RESULTS = """echo "step 10"
case "$*" in
  *mirrored*) echo '{"replicas": 2, "examples_per_second": 1900.0, "eval_accuracy": 0.875}' ;;
  *) echo '{"replicas": 1, "examples_per_second": 1000.0, "eval_accuracy": 0.5}' ;;
esac
"""

    def test_compares_two_replicas_with_one(self):
        output, lines = self.run_demo(self.RESULTS, cores=2)
        self.assertIn("step 10", output)
        self.assertIn("87.50 %", lines)
        self.assertIn("1.90x", lines)

    def test_trains_on_one_replica_where_there_is_one_core(self):
        output, lines = self.run_demo(self.RESULTS, cores=1)
        self.assertIn("one core", output)
        self.assertNotIn("mirrored", output)
        self.assertNotIn("speed-up", lines)

    def run_gpu_demo(self, devices):
        output = io.StringIO()
        script = f"""if [ "$1" = devices ]; then echo '{devices}'; exit; fi\n"""
        with contextlib.redirect_stdout(output):
            demo.run_on_gpus(self.brigade(script + self.RESULTS), self.folder)
        return output.getvalue()

    def test_one_card_is_two_logical_gpus(self):
        output = self.run_gpu_demo('{"cuda_built": true, "gpu_cards": 1}')
        self.assertIn("--devices gpu:0,gpu:1 --logical-gpus 2", output)
        self.assertNotIn("--logical-gpus", self.run_gpu_demo('{"cuda_built": true, "gpu_cards": 2}'))

    def test_without_a_gpu_its_demo_says_so(self):
        with self.assertRaisesRegex(demo.DemoFailed, "no GPU"):
            self.run_gpu_demo('{"cuda_built": true, "gpu_cards": 0}')
        with self.assertRaisesRegex(demo.DemoFailed, "not built for GPUs"):
            self.run_gpu_demo('{"cuda_built": false, "gpu_cards": 0}')

    def test_hands_on_the_status_of_a_failed_run(self):
        with self.assertRaises(demo.DemoFailed) as caught:
            self.run_demo("exit 2", cores=2)
        self.assertEqual(2, caught.exception.status)

    def test_refuses_a_last_line_that_is_not_json(self):
        with self.assertRaisesRegex(demo.DemoFailed, "not JSON: done"):
            self.run_demo("echo done", cores=2)


if __name__ == "__main__":
    unittest.main()

"""The scripts in tools/ that ./dev relies on."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import demo
import gpu_session
import gpu_steps
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


class CudaParts(unittest.TestCase):
    """cmake/BrigadeCuda.cmake, on a folder that has a file of no contents for each part."""

    PARTS = ("torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "nvidia/cu13/include/cuda_runtime_api.h",
             "nvidia/cu13/include/crt/host_defines.h", "nvidia/cu13/include/cublas_v2.h", "nvidia/cu13/include/cusparse.h",
             "nvidia/cu13/include/cusolverDn.h", "nvidia/nccl/include/nccl.h", "nvidia/cu13/lib/libcudart.so.13",
             "nvidia/nccl/lib/libnccl.so.2")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = pathlib.Path(folder.name) / "site"
        for part in self.PARTS:
            (self.site / part).parent.mkdir(parents=True, exist_ok=True)
            (self.site / part).write_text("")
        self.project = pathlib.Path(folder.name) / "project"
        self.project.mkdir()
        (self.project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(parts NONE)\n"
            f"set(BRIGADE_TORCH_DIR {self.site}/torch)\nset(BRIGADE_CUDA_TOOLKIT {folder.name}/none)\n"
            f"include({gpu_session.SOURCES}/cmake/BrigadeCuda.cmake)\n")

    def configure(self):
        return subprocess.run(["cmake", "-S", str(self.project), "-B", str(self.project / "build")], capture_output=True, text=True)

    def test_a_missing_part_is_an_error_that_names_it(self):
        self.assertEqual(0, self.configure().returncode)
        for part in self.PARTS:
            (self.site / part).rename(self.site / "away")
            configured = self.configure()
            self.assertNotEqual(0, configured.returncode, part)
            name = pathlib.Path(part).name.removeprefix("lib").split(".")[0]
            self.assertIn(name, configured.stderr, part)
            self.assertIn("install_torch.py --cuda", " ".join(configured.stderr.split()))
            (self.site / "away").rename(self.site / part)
        self.assertEqual(0, self.configure().returncode)


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

    def run_steps(self, steps, **limits):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            more = gpu_session.run(self.folder, self.folder / "out", self.folder / "torch", steps=steps, **limits)
        self.said = said.getvalue()
        return more, json.loads((self.folder / "out" / "results.json").read_text())

    def test_packs_stripped_programs_and_the_libraries_that_are_not_everywhere(self):
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        shutil.copy("/bin/bash", build / "bin" / "brigade")
        packed = self.folder / "packed"
        size = gpu_session.pack(build, packed, ["brigade"])
        self.assertEqual((self.folder / "packed.tar.gz").stat().st_size, size)
        self.assertLess(1_000_000, gpu_session.bytes_of_checkout())
        for script in gpu_session.SCRIPTS:
            self.assertTrue((packed / pathlib.Path(script).name).is_file(), script)
        self.assertFalse(any((packed / "lib").glob("libc.so*")))
        self.assertTrue((packed / "lib" / "libssl.so").is_file())
        self.assertTrue(any((packed / "lib").glob("libtinfo.so*")))
        with self.assertRaisesRegex(gpu_session.SessionFailed, "lacks gpu_tests"):
            gpu_session.pack(build, packed, ["brigade", "gpu_tests"])
        with mock.patch.object(gpu_session, "MOST_BYTES", 1000), \
                self.assertRaisesRegex(gpu_session.SessionFailed, "at most"):
            gpu_session.pack(build, packed, ["brigade"])

    def test_what_is_packed_runs_where_it_is_unpacked(self):
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        shutil.copy("/bin/true", build / "bin" / "bare_libtorch")
        gpu_session.pack(build, self.folder / "packed", ["bare_libtorch"])
        packed = self.folder / "elsewhere" / "packed"
        shutil.unpack_archive(self.folder / "packed.tar.gz", packed.parent)
        subprocess.run([str(packed / "bin" / "bare_libtorch")], check=True)
        planned = subprocess.run([sys.executable, str(packed / "gpu_session.py"), "plan", "--budget", "900"], cwd="/",
                                 capture_output=True, text=True, check=True).stdout
        self.assertIn("call 2", planned)
        self.assertIn("left out", planned)

    def test_a_later_call_continues_and_what_failed_is_kept(self):
        self.program("good", 'echo "{\\"images_per_second\\": $1}"')
        self.program("bad", 'echo "no card"; exit 3')
        self.program("silent", "echo done")
        self.program("slow", "exec sleep 60")
        step = gpu_steps.Step
        speed = {"measures": "images_per_second"}
        steps = [step("x [1]", ("good", "10"), 20, **speed), step("x [2]", ("good", "30"), 20, **speed),
                 step("broken", ("bad",), 20), step("hung", ("slow",), 0.2), step("gone", ("none",), 20),
                 step("y [1]", ("silent",), 20, **speed), step("late", ("good", "1"), 500)]
        more, results = self.run_steps(steps, call_seconds=60)
        self.assertTrue(more)
        self.assertNotIn("late", results)
        self.assertEqual("exit 3", results["broken"]["why"])
        self.assertIn("no end within", results["hung"]["why"])
        self.assertIn("does not start", results["gone"]["why"])
        self.assertIn("printed no images_per_second", results["y [1]"]["why"])
        more, results = self.run_steps(steps, call_seconds=600)
        self.assertFalse(more)
        lines = "\n".join(gpu_session.table(results, steps, ()))
        self.assertIn("| x | 20 | 10-30 | 2 | ", lines)
        self.assertIn("| y | not measured | - | 0 | |", lines)
        self.assertIn("failed: broken: exit 3", lines)
        self.assertIn("passed: late", lines)

    def test_results_of_earlier_calls_may_come_from_another_machine(self):
        self.program("count", f"echo x >> {self.folder}/calls; echo '{{\"images_per_second\": 1}}'")
        steps = [gpu_steps.Step("a", ("count",), 20), gpu_steps.Step("b", ("count",), 20)]
        self.run_steps(steps[:1])
        earlier = self.folder / "earlier.json"
        (self.folder / "out" / "results.json").rename(earlier)
        _, results = self.run_steps(steps, earlier=earlier)
        self.assertEqual(["a", "b"], sorted(results))
        self.assertEqual("x\nx\n", (self.folder / "calls").read_text())

    def test_what_does_not_fit_into_the_budget_is_left_out_for_what_does(self):
        self.program("good", "echo good")
        step = lambda name, seconds: gpu_steps.Step(name, ("good",), seconds)
        steps = [step("first", 10), step("long", 100), step("short", 10)]
        more, results = self.run_steps(steps, budget=30)
        self.assertFalse(more)
        self.assertEqual(["first", "short"], list(results))
        self.assertIn("long: left out", self.said)
        self.assertIn("- did not run: long", gpu_session.table(results, steps, ()))
        spent = {name: {**result, "seconds": 15} for name, result in results.items()}
        (self.folder / "out" / "results.json").write_text(json.dumps(spent))
        _, results = self.run_steps([*steps, step("another", 5)], budget=30)  # that is spent
        self.assertNotIn("another", results)

    def test_without_a_card_nothing_else_runs(self):
        self.program("none", "echo '{\"gpu_cards\": 0}'")
        self.program("broken", "exit 2")
        self.program("good", "echo good")
        for program in ("none", "broken"):
            steps = [gpu_steps.Step(f"devices {program}", (program,), 20, measures="gpu_cards", decides=True),
                     gpu_steps.Step("tests", ("good",), 20)]
            more, results = self.run_steps(steps)
            self.assertFalse(more)
            self.assertNotIn("tests", results)
            self.assertIn("nothing else counts", self.said)

    def test_a_step_may_hide_the_card(self):
        self.program("ask", 'echo "{\\"seen\\": \\"$CUDA_VISIBLE_DEVICES\\"}"')
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0"}):
            _, results = self.run_steps([gpu_steps.Step("hidden", ("ask",), 20, hides_card=True),
                                         gpu_steps.Step("shown", ("ask",), 20)])
        self.assertEqual(["", "0"], [results[name]["report"]["seen"] for name in ("hidden", "shown")])

    def test_a_step_may_run_under_another_program_or_be_a_script(self):
        self.program("good", "echo good")
        (self.folder / "script.py").write_text("import json, sys; print(json.dumps({'got': sys.argv[1]}))")
        _, results = self.run_steps([gpu_steps.Step("under env", ("good",), 20, under=("env", "A=1")),
                                     gpu_steps.Step("under nothing", ("good",), 20, under=("no-such-program",)),
                                     gpu_steps.Step("script", ("python", "script.py", "{scratch}/x"), 20)])
        self.assertTrue(results["under env"]["passed"])
        self.assertIn("does not start", results["under nothing"]["why"])
        self.assertEqual(str(self.folder / "scratch/x"), results["script"]["report"]["got"])

    def test_skipped_tests_are_named(self):
        self.program("tests", 'echo "[  SKIPPED ] OnGpu.A (0 ms)"; echo "[  SKIPPED ] 1 test, listed below:"; '
                              'echo "[  SKIPPED ] OnGpu.A"')
        steps = [gpu_steps.Step("tests", ("tests",), 20)]
        _, results = self.run_steps(steps)
        self.assertIn("- passed: tests (1 skipped themselves: OnGpu.A)", gpu_session.table(results, steps, ()))

    def test_the_order_fits_into_thirty_minutes_of_calls(self):
        calls, left_out = gpu_session.plan(gpu_session.CALL_SECONDS, gpu_session.BUDGET_SECONDS)
        self.assertEqual([], left_out)
        self.assertLessEqual(sum(step.seconds for step in gpu_steps.STEPS), 1800)
        for steps in calls:
            self.assertLessEqual(sum(step.seconds for step in steps), 600)
        self.assertEqual(list(gpu_steps.STEPS), [step for steps in calls for step in steps])
        self.assertEqual(len(gpu_steps.STEPS), len({step.name for step in gpu_steps.STEPS}))

    def test_what_decides_comes_first_and_fits_into_fifteen_minutes(self):
        self.assertTrue(gpu_steps.STEPS[0].decides)
        checks = [not step.name.endswith("]") for step in gpu_steps.STEPS]
        self.assertEqual(7, checks.index(False))
        calls, left_out = gpu_session.plan(gpu_session.CALL_SECONDS, 900)
        planned = {step.name for steps in calls for step in steps}
        self.assertLessEqual({step.name for step in gpu_steps.STEPS[:27]}, planned)
        self.assertTrue(left_out)

    def test_peers_run_in_turns_and_bars_compare_what_is_measured(self):
        names = [step.name for step in gpu_steps.STEPS]
        first = names.index(f"{gpu_steps.EAGER} [1]")
        self.assertEqual([f"{gpu_steps.EAGER} [1]", f"{gpu_steps.COMPILED} [1]"], names[first:first + 2])
        self.assertLess(names.index(f"{gpu_steps.BARE} [1]"), names.index(f"{gpu_steps.EAGER} [2]"))
        for bar in gpu_steps.BARS:
            for name in filter(None, (bar.of, bar.over)):
                self.assertIn(f"{name} [1]", names, bar.name)

    def test_bars_are_ratios_of_the_same_blocks(self):
        bars = (gpu_steps.Bar("fast", "a", "b", 2.0), gpu_steps.Bar("slow", "b", "a", 1.0),
                gpu_steps.Bar("wait", "c", "", 50, at_least=False), gpu_steps.Bar("few", "d", "b", 1.0),
                gpu_steps.Bar("none", "e", "b", 1.0))
        values = {"a": (20, 30, 40, 50, 60), "b": (10,) * 5, "c": (1, 2, 3, 4, 5), "d": (10,)}
        results = {f"{name} [{block}]": {"passed": True, "value": value, "seconds": 1}
                   for name, blocks in values.items() for block, value in enumerate(blocks, 1)}
        lines = gpu_session.table(results, (), bars)
        for line in ("| fast | at least 2.0 | 4 | 2-6 | 5 | met |", "| slow | at least 1.0 | 0.25 | 0.167-0.5 | 5 | missed |",
                     "| wait | at most 50 | 3 | 1-5 | 5 | met |", "| few | at least 1.0 | 1 | 1-1 | 1 | open: too few blocks |",
                     "| none | at least 1.0 | not measured | - | 0 | open |"):
            self.assertIn(line, lines)

    def test_random_images_have_mnists_format(self):
        gpu_session.write_images(self.folder, count=120, rows=28)
        images = (self.folder / "train-images-idx3-ubyte").read_bytes()
        self.assertEqual(16 + 120 * 28 * 28, len(images))
        self.assertEqual((2051, 120, 28, 28), struct.unpack(">4i", images[:16]))
        labels = (self.folder / "t10k-labels-idx1-ubyte").read_bytes()
        self.assertEqual((2049, 2), struct.unpack(">2i", labels[:8]))
        self.assertLess(max(labels[8:]), 10)


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

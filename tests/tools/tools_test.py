"""The scripts in tools/ that ./dev relies on."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import demo
import install_python
import install_torch
import list_skips

VERSION_HEADER = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR {}\n#define TORCH_VERSION_PATCH 0\n"


class InstallTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = pathlib.Path(folder.name) / "site"
        for name in install_torch.REQUIRED:
            (self.site / name).parent.mkdir(parents=True, exist_ok=True)
            (self.site / name).write_text(VERSION_HEADER.format(11) if name.endswith("version.h") else "")

    def test_a_whole_tree_without_stamp_gets_one(self):
        self.assertTrue(install_torch.is_complete(self.site))
        self.assertEqual(install_torch.versions(), (self.site / install_torch.STAMP).read_text())

    def test_another_version_is_not_complete(self):
        (self.site / install_torch.REQUIRED[0]).write_text(VERSION_HEADER.format(10))
        self.assertFalse(install_torch.is_complete(self.site))

    def test_another_stamp_is_not_complete(self):
        (self.site / install_torch.STAMP).write_text("torch==2.10.0\n")
        self.assertFalse(install_torch.is_complete(self.site))

    def test_a_missing_file_is_not_complete(self):
        self.assertTrue(install_torch.is_complete(self.site))
        (self.site / install_torch.REQUIRED[-1]).unlink()
        self.assertFalse(install_torch.is_complete(self.site))

    def test_wants_no_cuda_library_of_torch(self):
        wanted = install_torch.WANTED.fullmatch
        self.assertTrue(wanted("torch/include/ATen/ATen.h"))
        self.assertTrue(wanted("nvidia/cu13/lib/libcudart.so.13"))
        self.assertFalse(wanted("torch/lib/libtorch_cuda.so"))
        self.assertFalse(wanted("nvidia/cu13/lib/libcudart_static.a"))


class InstallPython(unittest.TestCase):
    def run_main(self, folder, result):
        with mock.patch.object(sys, "argv", ["install_python.py", folder]), \
                mock.patch.object(subprocess, "run", side_effect=result) as run, \
                contextlib.redirect_stderr(io.StringIO()) as said:
            install_python.main()
        return run.call_count, said.getvalue()

    def test_without_network_it_says_what_is_lost_and_goes_on(self):
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

    def test_hands_on_the_status_of_a_failed_run(self):
        with self.assertRaises(demo.DemoFailed) as caught:
            self.run_demo("exit 2", cores=2)
        self.assertEqual(2, caught.exception.status)

    def test_refuses_a_last_line_that_is_not_json(self):
        with self.assertRaisesRegex(demo.DemoFailed, "not JSON: done"):
            self.run_demo("echo done", cores=2)


if __name__ == "__main__":
    unittest.main()

"""The installed package as its users have it: headers, libraries, CMake's and pkg-config's package, the command. And what else
CMake must be able to configure.

It is installed under a path with spaces and then moved. Where the kernel allows it, everything after that runs in a mount
namespace in which the source and the build folder are empty.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ["BRIGADE_SOURCE"])
BUILD = pathlib.Path(os.environ["BRIGADE_BUILD"])
TORCH = pathlib.Path(os.environ["BRIGADE_TORCH"]).resolve()
VERSION = os.environ["BRIGADE_TORCH_VERSION"]
CXX = os.environ["BRIGADE_CXX"]
CMAKE = os.environ["BRIGADE_CMAKE"]
DEADLINE = 540  # seconds for one command; the longest compiles a program that includes all of Brigade

# Empties the source ($1) and the build folder ($2), and shows libtorch's site ($3) at $4.
HIDE = ('set -e; mount --bind "$3" "$4"; for folder in "$2" "$1"; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done; '
        'shift 4; exec "$@"')


def can_hide():
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", folder], capture_output=True,
                              check=False).returncode == 0


def setUpModule():
    """Installs, once for all tests."""
    scratch = tempfile.TemporaryDirectory(prefix="brigade-install-")
    unittest.addModuleCleanup(scratch.cleanup)
    InstalledTest.install(pathlib.Path(scratch.name))


class InstalledTest(unittest.TestCase):
    @classmethod
    def install(cls, scratch):
        cls.scratch = scratch
        first = cls.scratch / "first place"
        installed = subprocess.run([CMAKE, "--install", BUILD, "--prefix", first], capture_output=True, text=True,
                                   timeout=DEADLINE, check=False)
        if installed.returncode != 0:
            raise AssertionError(f"{installed.stdout[-2000:]}\n{installed.stderr}\nIs everything built? (./dev build)")
        cls.prefix = cls.scratch / "a prefix"
        first.rename(cls.prefix)
        cls.hides = can_hide()
        cls.torch = TORCH
        if cls.hides:
            (cls.scratch / "site").mkdir()
            cls.torch = cls.scratch / "site" / TORCH.name
        cls.config = next(cls.prefix.rglob("brigade-config.cmake")).parent
        cls.library_dir = cls.config.parents[1]
        cls.command = cls.prefix / "bin/brigade"

    def run_command(self, *words, torch=None, folder=None, **variables):
        """Runs it where the source and the build folder are empty."""
        environment = {"HOME": str(self.scratch), "PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "LANG": "C.UTF-8",
                       "BRIGADE_TORCH_DIR": str(self.torch if torch is None else torch), **variables}
        command = [str(word) for word in words]
        if self.hides:
            command = ["unshare", "--mount", "sh", "-c", HIDE, "sh", str(SOURCE), str(BUILD), str(TORCH.parent),
                       str(self.scratch / "site"), *command]
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=folder or self.scratch,
                              env={name: value for name, value in environment.items() if value}, check=False)

    def succeed(self, *words, **options):
        result = self.run_command(*words, **options)
        self.assertEqual(0, result.returncode, f"{shlex.join(map(str, words))}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def fail_with(self, status, *words, **options):
        result = self.run_command(*words, **options)
        self.assertEqual(status, result.returncode, result.stdout + result.stderr)
        return result.stderr


class Files(InstalledTest):
    def test_name_neither_source_nor_build(self):
        count = 0
        for path in self.prefix.rglob("*"):
            if path.is_file() and not path.is_symlink():
                count += 1
                content = path.read_bytes()
                for folder in (SOURCE, BUILD, TORCH):
                    self.assertNotIn(str(folder).encode(), content, path)
        self.assertGreater(count, 400)

    def test_have_no_runtime_path(self):
        programs = [self.command, next(self.prefix.rglob("brigade-core")), *self.library_dir.glob("*.so")]
        self.assertEqual(4, len(programs))
        for program in programs:
            dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)", program)

    def test_headers_show_libtorch_alone(self):
        include = self.prefix / "include"
        headers = list(include.rglob("*.h"))
        self.assertTrue((include / "brigade/brigade.h").is_file())
        self.assertGreater(len(headers), 400)
        for header in headers:
            self.assertNotIn("testing", header.relative_to(include).parts)
            for kind, name in re.findall(r'^#include ([<"])([^>"]+)[>"]', header.read_text(), flags=re.MULTILINE):
                if kind == '"':
                    self.assertTrue((include / name).is_file(), f"{header} includes {name}, which is not installed")
                elif "/" in name:
                    self.assertRegex(name, r"^(ATen|c10|torch|sys|netinet|arpa)/", header)
                else:
                    self.assertNotRegex(name, r"^(mpi|hwloc|zlib|nccl|jpeglib|png)\.h$", header)


class Programs(InstalledTest):
    def configure(self, source, build, *more):
        return self.run_command(CMAKE, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={CXX}",
                                "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *more)

    def dynamic_section(self, program):
        return subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout

    def trains(self, program, **options):
        folder = program.parent
        output = self.succeed(program, folder=folder, **options)
        accuracy = float(re.search(r"^Test accuracy: ([\d.]+)$", output, flags=re.MULTILINE)[1])
        self.assertGreater(accuracy, 0.9, output)
        weights = folder / "my_project.safetensors"
        self.assertGreater(weights.stat().st_size, 4 * 64 * 64)
        weights.unlink()

    def test_new_project_builds_and_trains(self):
        """Shared, then static in the same build folder: the program is compiled once."""
        project, build = self.scratch / "my_project", self.scratch / "my_project/build"
        self.assertIn(str(project), self.succeed("brigade", "new", project))
        self.assertNotIn("@PROJECT@", "".join(each.read_text() for each in project.iterdir()))

        configured = self.configure(project, build)
        self.assertEqual(0, configured.returncode, configured.stdout + configured.stderr)
        compiled = json.loads((build / "compile_commands.json").read_text())[0]["command"]
        self.assertRegex(compiled, r" -O[23] ")
        self.assertRegex(compiled, r" -std=(c|gnu)\+\+20 ")
        self.assertIn(f"-isystem {shlex.quote(str(self.prefix / 'include')).replace(chr(39), chr(34))}", compiled)
        self.assertNotRegex(compiled, r" -W| -fPIC| -fpch| -Xclang")

        self.succeed(CMAKE, "--build", build)
        program = build / "my_project"
        self.assertIn("[libbrigade.so.", self.dynamic_section(program))
        self.trains(program)
        object_time = next(build.rglob("main.cpp.o")).stat().st_mtime

        errors = self.fail_with(1, program, LD_PRELOAD=str(self.other_torch()))
        self.assertRegex(errors, rf"^brigade: error: Brigade was built with libtorch {VERSION}, but .* libtorch 2\.10\.0 \(.*other_torch")
        self.assertEqual(1, errors.count("\n"))

        configured = self.configure(project, build, "-DBRIGADE_USE_STATIC_LIBS=ON")
        self.assertEqual(0, configured.returncode, configured.stdout + configured.stderr)
        self.succeed(CMAKE, "--build", build)
        self.assertNotIn("libbrigade", self.dynamic_section(program))
        self.assertEqual(object_time, next(build.rglob("main.cpp.o")).stat().st_mtime)
        self.trains(program)
        errors = self.fail_with(1, program, LD_PRELOAD=str(self.other_torch()))
        self.assertIn("libtorch 2.10.0", errors)

    def other_torch(self):
        library = self.scratch / "other_torch.so"
        if not library.exists():
            subprocess.run([CXX, "-x", "c", "-shared", "-fPIC", HERE / "other_torch.c", "-o", library], check=True)
        return library

    def test_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not installed (Debian: pkg-config)")
        source = self.scratch / "consumer.cpp"
        shutil.copy(HERE / "pkg_config_consumer.cpp", source)

        def flags(*asked):
            return shlex.split(self.succeed("pkg-config", f"--define-variable=torch={self.torch}", *asked, "brigade",
                                            PKG_CONFIG_PATH=str(self.library_dir / "pkgconfig")))

        compiled = self.scratch / "consumer.o"
        self.succeed(CXX, "-O1", *flags("--cflags"), "-c", source, "-o", compiled)
        for static in ([], ["--static"]):
            program = self.scratch / f"consumer{''.join(static)}"
            libraries = flags("--libs", *static)
            if static:
                libraries = [str(self.library_dir / "libbrigade.a") if each == "-lbrigade" else each for each in libraries]
            self.succeed(CXX, compiled, "-o", program, *libraries, f"-Wl,-rpath,{self.torch}/lib", f"-Wl,-rpath,{self.library_dir}")
            self.assertRegex(self.succeed(program), r"^sum 285, devices [1-9]")

    def test_another_libtorch_is_refused_at_configuration(self):
        project = self.scratch / "refused"
        self.succeed("brigade", "new", project)
        other = self.scratch / "other" / "torch"
        (other / "lib").mkdir(parents=True)
        (other / "lib/libtorch_cpu.so").touch()
        (other / "include/torch/headeronly").mkdir(parents=True)
        (other / "include/torch/headeronly/version.h").write_text(
            "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 10\n#define TORCH_VERSION_PATCH 1\n")
        result = self.configure(project, project / "build", f"-DBRIGADE_TORCH_DIR={other}")
        self.assertNotEqual(0, result.returncode)
        text = " ".join(result.stderr.split())
        self.assertIn(f"Brigade needs libtorch {VERSION}", text)
        self.assertIn(f"libtorch 2.10.1 in {other}", text)
        self.assertIn("brigade setup", text)
        errors = self.fail_with(2, "brigade", "devices", torch=other)
        self.assertIn(f"{other} is libtorch 2.10. Download it by `brigade setup`", errors)

    def test_libtorch_is_found_in_a_virtual_environment(self):
        packages = self.scratch / "venv/lib/python3.11/site-packages"
        packages.mkdir(parents=True)
        (packages / "torch").symlink_to(self.torch)
        self.succeed("brigade", "devices", torch="", VIRTUAL_ENV=str(self.scratch / "venv"))


class Command(InstalledTest):
    def test_runs_what_needs_libtorch(self):
        self.assertIn(f"libtorch {VERSION}", self.succeed("brigade", "--version"))
        output = self.succeed("brigade", "train", "--model", "mlp", "--dataset", "synthetic", "--steps", "5", "--model-dir",
                              self.scratch / "run", "--json")
        self.assertEqual(5, json.loads(output.splitlines()[-1])["steps"])

    def test_starts_itself_from_libexec(self):
        """A sweep's core starts `brigade`, which is in another folder."""
        self.succeed("brigade", "sweep", "--processes", "--param", "learning_rate=0.1,0.01", "--model", "mlp", "--dataset",
                     "synthetic", "--steps", "3")
        output = self.succeed("brigade", "launch", "--nproc", "2", "--", "brigade", "train", "--strategy",
                              "multi_worker_mirrored", "--model", "mlp", "--dataset", "synthetic", "--steps", "3",
                              "--model-dir", self.scratch / "launched", "--allow-oversubscription")
        self.assertIn("steps            3", output)

    def test_says_how_to_get_libtorch(self):
        errors = self.fail_with(2, "brigade", "devices", torch=self.scratch / "nothing")
        self.assertIn("no libtorch", errors)
        self.assertIn("brigade setup", errors)

    def test_setup_finds_what_is_there(self):
        folder = self.scratch / "setup"
        folder.mkdir()
        (folder / "site").symlink_to(self.torch.parent)
        result = self.run_command("brigade", "setup", "--dir", folder)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(f"libtorch {VERSION} is in {folder}/site/torch", result.stderr)

    def test_in_the_build_folder(self):
        """There `new` works, and `setup` says what to do instead."""
        command = BUILD / "bin/brigade"
        for words, status in (("new", self.scratch / "from_build"), 0), (("setup",), 2):
            result = subprocess.run([command, *words], capture_output=True, text=True, timeout=DEADLINE, check=False)
            self.assertEqual(status, result.returncode, result.stderr)
        self.assertTrue((self.scratch / "from_build/main.cpp").is_file())
        self.assertIn("./dev setup", result.stderr)

    def test_new_refuses(self):
        taken = self.scratch / "taken"
        taken.mkdir()
        (taken / "file").touch()
        self.assertIn("exists already", self.fail_with(2, "brigade", "new", taken))
        for name in ("1st", "a b", "test", "é"):
            self.assertIn("cannot be called", self.fail_with(2, "brigade", "new", name))
        self.assertIn("NAME", self.fail_with(2, "brigade", "new"))


class Folder(unittest.TestCase):
    """Brigade as a folder of another project: add_subdirectory()."""

    def test_leaves_the_parent_as_it_is(self):
        with tempfile.TemporaryDirectory(prefix="brigade-parent-") as folder:
            result = subprocess.run(
                [CMAKE, "-S", HERE / "parent_project", "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={CXX}",
                 f"-DBRIGADE_SOURCE={SOURCE}", f"-DBRIGADE_TORCH_DIR={TORCH}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
                capture_output=True, text=True, timeout=DEADLINE, check=False)
            self.assertEqual(0, result.returncode, result.stderr)
            seen = (pathlib.Path(folder) / "seen.txt").read_text()
            self.assertEqual("pools mine=7\ntests \noutput output-NOTFOUND\ntype \nstandard \npic \ninstall \n", seen)
            program = next(each["command"] for each in json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())
                           if each["file"].endswith("program.cpp"))
            self.assertRegex(program, r" -std=(c|gnu)\+\+20 ")
            self.assertIn(" -O2 ", program)
            self.assertIn(f"-isystem {SOURCE} ", program)
            self.assertNotRegex(program, r" -W| -fpch| -Xclang| -I")
            self.assertEqual([], sorted(each.name for each in pathlib.Path(folder).glob("bin")))


class Presets(unittest.TestCase):
    def test_asan_is_configured(self):
        """`./dev test` builds the presets `release` and `tsan`; this one only `./dev sanitize` does."""
        with tempfile.TemporaryDirectory(prefix="brigade-asan-") as folder:
            result = subprocess.run(
                [CMAKE, "--preset", "asan", "-S", SOURCE, "-B", folder, f"-DCMAKE_CXX_COMPILER={CXX}", f"-DBRIGADE_TORCH_DIR={TORCH}"],
                capture_output=True, text=True, timeout=DEADLINE, check=False)
            self.assertEqual(0, result.returncode, result.stderr)


if __name__ == "__main__":
    unittest.main()

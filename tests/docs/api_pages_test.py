"""Doxygen makes the API pages from our headers without a warning."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@unittest.skipIf(shutil.which("doxygen") is None, "not installed: doxygen (`./dev docs` installs it)")
class ApiPages(unittest.TestCase):
    def make(self, folder, *settings):
        """The finished run of Doxygen that writes to a folder. Later settings replace those of the Doxyfile."""
        lines = [(ROOT / "docs/Doxyfile").read_text(encoding="utf-8"), f'OUTPUT_DIRECTORY = "{folder}"', *settings]
        return subprocess.run(["doxygen", "-"], input="\n".join(lines), cwd=ROOT, text=True, capture_output=True, timeout=300)

    def test_are_made_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            made = self.make(folder)
            self.assertEqual((0, ""), (made.returncode, made.stderr))
            pages = pathlib.Path(folder, "api")
            self.assertTrue((pages / "index.html").exists())
            self.assertTrue(any(pages.glob("classbrigade_1_1distribute_1_1MirroredStrategy.html")))

    def test_a_comment_about_a_parameter_that_is_not_there_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder, "wrong.h")
            header.write_text("/// Adds.\n/// \\param c not a parameter\nint add(int a, int b);\n", encoding="utf-8")
            made = self.make(folder, f'INPUT = "{header}"', "USE_MDFILE_AS_MAINPAGE =")
            self.assertNotEqual(0, made.returncode)
            self.assertIn("argument 'c'", made.stderr)


if __name__ == "__main__":
    unittest.main()

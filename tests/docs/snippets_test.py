"""The guide's C++ is that of compiled examples."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import doc_snippets  # noqa: E402

DOCUMENT = "Text\n<!-- snippet: a.cpp part -->\n```cpp\nold;\n```\nafter\n"
SOURCE = "int before;\n  // [part]\n  if (a) {\n    // [inner]\n    b();\n    // [/inner]\n  }\n  // [/part]\nint after;\n"


class Snippets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="brigade-snippets-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "README.md").write_text(DOCUMENT)
        (self.root / "a.cpp").write_text(SOURCE)

    def test_those_of_the_guide_are_up_to_date(self):
        self.assertEqual([], doc_snippets.stale_documents(ROOT, check=True))
        self.assertIn("<!-- snippet: ", (ROOT / "docs/guide/your-own-model.md").read_text(encoding="utf-8"))

    def test_a_stale_one_is_found_and_rewritten(self):
        self.assertEqual(["README.md"], doc_snippets.stale_documents(self.root, check=True))
        self.assertEqual(DOCUMENT, (self.root / "README.md").read_text())
        self.assertEqual(["README.md"], doc_snippets.stale_documents(self.root, check=False))
        self.assertEqual(DOCUMENT.replace("old;", "if (a) {\n  b();\n}"), (self.root / "README.md").read_text())
        self.assertEqual([], doc_snippets.stale_documents(self.root, check=True))

    def test_a_part_that_is_missing_is_named(self):
        for text, words in ((DOCUMENT.replace("part", "other"), "0 parts called other"),
                            (DOCUMENT.replace("a.cpp", "b.cpp"), "no file b.cpp"),
                            (DOCUMENT.replace("```cpp", "```sh"), "no ```cpp block")):
            (self.root / "README.md").write_text(text)
            with self.assertRaisesRegex(doc_snippets.SnippetError, f"README.md: .*{words}"):
                doc_snippets.stale_documents(self.root, check=True)


if __name__ == "__main__":
    unittest.main()

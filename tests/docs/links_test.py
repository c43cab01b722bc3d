"""Links between the documents lead somewhere."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def documents():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def broken_links(document):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target and not (document.parent / target).exists()]


class Links(unittest.TestCase):
    def test_lead_to_files(self):
        self.assertGreater(len(documents()), 5)
        for document in documents():
            with self.subTest(document=document.relative_to(ROOT)):
                self.assertEqual([], broken_links(document))


if __name__ == "__main__":
    unittest.main()

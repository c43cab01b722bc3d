"""Links between the documents lead somewhere."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def documents():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]


def broken_links(document):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target and not (document.parent / target).exists()]


def anchors(document):
    """The names of a document's headings, as links have them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def broken_anchors(document):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        linked = document.parent / target if target else document
        if "://" not in target and linked.suffix == ".md" and linked.exists() and anchor not in anchors(linked):
            found.append(f"{target}#{anchor}")
    return found


class Links(unittest.TestCase):
    def test_lead_to_headings(self):
        for document in documents():
            with self.subTest(document=document.relative_to(ROOT)):
                self.assertEqual([], broken_anchors(document))

    def test_lead_to_files(self):
        self.assertGreater(len(documents()), 5)
        for document in documents():
            with self.subTest(document=document.relative_to(ROOT)):
                self.assertEqual([], broken_links(document))


if __name__ == "__main__":
    unittest.main()

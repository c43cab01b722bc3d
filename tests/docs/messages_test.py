"""The messages that the page on troubleshooting explains are those of the code."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guide/troubleshooting.md"


def messages():
    """The first column of the page's tables: `words ... more words`, where ... stands for a value."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def literals():
    """All text between quotes in the sources, adjacent literals joined."""
    texts = []
    for folder in ("brigade", "apps"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp") or path.name.endswith("_test.cpp") or "testing" in path.parts:
                continue
            source = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
            texts += re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    return "\n".join(texts).replace('\\"', '"')


class Messages(unittest.TestCase):
    def test_are_in_the_sources(self):
        known = literals()
        self.assertGreater(len(messages()), 50)
        for message in messages():
            for part in message.split("..."):
                with self.subTest(message=message, part=part.strip()):
                    self.assertIn(part.strip(), known)


if __name__ == "__main__":
    unittest.main()

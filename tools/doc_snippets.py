#!/usr/bin/env python3
"""Copies the marked parts of compiled examples into the guide.

A document names a file and a part in a comment before a block of code:

    <!-- snippet: examples/snippets/models.cpp two_optimizers -->
    ```cpp
    ...
    ```

and the file marks the part with the lines `// [two_optimizers]` and `// [/two_optimizers]`. After a change of the file:

    tools/doc_snippets.py            # rewrites the blocks
    tools/doc_snippets.py --check    # only says which differ, and exits with 1 if one does
"""
import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(?P<head><!-- snippet: (?P<file>\S+) (?P<name>\w+) -->\n```cpp\n)(?P<code>.*?)(?P<end>```\n)", re.DOTALL)
REFERENCE = re.compile(r"^<!-- snippet:", re.MULTILINE)
MARKER = re.compile(r"^\s*// \[/?\w+\]\n", re.MULTILINE)


class SnippetError(Exception):
    """A document asks for what is not there."""


def snippet(root, file, name):
    """The part of a file between its markers, without indentation and without markers of other parts."""
    path = root / file
    if not path.is_file():
        raise SnippetError(f"there is no file {file}")
    found = re.findall(rf"^[ ]*// \[{name}\]\n(.*?)^[ ]*// \[/{name}\]\n", path.read_text(encoding="utf-8"),
                       flags=re.DOTALL | re.MULTILINE)
    if len(found) != 1:
        raise SnippetError(f"{file} has {len(found)} parts called {name}, and should have one")
    return textwrap.dedent(MARKER.sub("", found[0]))


def updated(root, text):
    """The text with the snippets as the files have them."""
    result, count = BLOCK.subn(lambda match: match["head"] + snippet(root, match["file"], match["name"]) + match["end"], text)
    if count != len(REFERENCE.findall(text)):
        raise SnippetError("a line <!-- snippet: FILE NAME --> has no ```cpp block after it")
    return result


def stale_documents(root, check):
    """The documents whose snippets differ from the files; rewrites them unless `check`."""
    stale = []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        try:
            new = updated(root, text)
        except SnippetError as error:
            raise SnippetError(f"{path.relative_to(root)}: {error}") from None
        if new != text:
            stale.append(str(path.relative_to(root)))
            if not check:
                path.write_text(new, encoding="utf-8")
    return stale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a document is out of date")
    options = parser.parse_args()
    try:
        stale = stale_documents(ROOT, options.check)
    except SnippetError as error:
        sys.exit(f"doc_snippets: {error}")
    for name in stale:
        print(f"{name}: {'differs from its examples: run tools/doc_snippets.py' if options.check else 'updated'}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

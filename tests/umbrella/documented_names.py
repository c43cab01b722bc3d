"""Writes a C++ file that uses all names in the documentation, which the umbrella header must declare: documented_names.py OUTPUT."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", *(str(path.relative_to(ROOT)) for folder in ("docs", "docs/guide") for path in sorted((ROOT / folder).glob("*.md")))]
# Classes whose name the documentation also uses for something else.
OTHERS = {"Trainer",  # PyTorch Lightning's
          "Waiting"}  # the first word of a message
# Names of data, input and images are in `brigade` itself, but for the hooks that programs specialize for their own types.
SHORT = {"brigade::data", "brigade::image", "brigade::input"}
HOOKS = {"ByteSize", "Codec", "Padding", "Structure", "Unbatch"}
FEWEST = 60  # found in the current documentation; fewer means that parsing failed


def code_of(text):
    """The text between backticks: blocks of C++, and parts of a line."""
    blocks = re.findall(r"```cpp\n(.*?)```", text, flags=re.DOTALL)
    return blocks + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def classes():
    """Each public class of a header, with its namespace; strategies also by their short names."""
    found = {}
    for header in sorted((ROOT / "brigade").rglob("*.h")):
        if "testing" in header.parts:
            continue
        text = header.read_text(encoding="utf-8")
        spaces = list(re.finditer(r"^namespace (brigade[\w:]*) \{", text, flags=re.MULTILINE))
        for match in re.finditer(r"^(?:class|struct|enum class) (?:\[\[nodiscard\]\] )?([A-Z]\w+)(?: final)?(?: :|\s*\{)", text,
                                 flags=re.MULTILINE):
            space = next((space[1] for space in reversed(spaces) if space.start() < match.start()), "internal")
            if not space.endswith("internal"):
                found.setdefault(match[1], space)
    return found


def qualified(name):
    """`bg::data::Dataset::batch` is the class's business, so `brigade::data::Dataset`; None for a namespace."""
    parts = []
    for part in name.split("::")[1:]:
        parts.append(part)
        if part[:1].isupper():
            break
    is_namespace = (ROOT / "brigade" / pathlib.Path(*parts)).is_dir() or parts == ["brigade"]
    return None if is_namespace else "brigade::" + "::".join(parts)


def short(space, word):
    return f"brigade::{word}" if space in SHORT and word not in HOOKS else f"{space}::{word}"


def documented():
    known = classes()
    names = set()
    for document in DOCUMENTS:
        for code in code_of((ROOT / document).read_text(encoding="utf-8")):
            names.update(qualified(name) for name in re.findall(r"\b(?:bg|brigade)(?:::\w+)+", code))
            names.update(short(known[word], word) for word in re.findall(r"(?<![\w.])[A-Z]\w+", code)
                         if word in known and word not in OTHERS)
    for word, space in known.items():
        if space == "brigade::distribute" and re.fullmatch(r"(?!Strategy)\w+Strategy", word):
            names.update([f"brigade::{word}", f"brigade::{word.removesuffix('Strategy')}Options"])
    return sorted(names - {None})


def main():
    names = documented()
    if len(names) < FEWEST:
        sys.exit(f"only {len(names)} names found in {DOCUMENTS}")
    lines = [f"namespace documented_{i} {{ using {name}; }}" for i, name in enumerate(names)]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

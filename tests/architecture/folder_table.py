"""Reads the folder table of docs/design/architecture.md: which folder may include which."""
import dataclasses
import re

HEADING = ["folder", "state", "what lives there", "may include"]
ANY = "*"
UMBRELLA = "umbrella"


class TableError(Exception):
    """The table cannot be read, or contradicts itself."""


@dataclasses.dataclass(frozen=True)
class Row:
    path: str  # `brigade/io`
    built: bool
    above_torch: bool
    may_include: frozenset  # names of folders of brigade/, ANY, UMBRELLA

    @property
    def name(self):
        return self.path.split("/")[-1]


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table_lines(text):
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("|") and _cells(line) == HEADING:
            next(lines, "")  # the rule under the heading
            break
    else:
        raise TableError(f"no table with the heading {' | '.join(HEADING)}")
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def parse(text):
    """The rows by path, in the table's order. A folder may only name folders of brigade/ that stand above it."""
    rows = {}
    above_torch = True
    for line in _table_lines(text):
        cells = _cells(line)
        if len(cells) != len(HEADING):
            raise TableError(f"{len(cells)} cells instead of {len(HEADING)}: {line}")
        if cells[0].startswith("**"):
            above_torch = above_torch and "torch begins" not in cells[0]
            continue
        path = re.fullmatch(r"`([\w/]+)`", cells[0])
        if not path or cells[1] not in ("built", "planned"):
            raise TableError(f"not a row of the folder table: {line}")
        names = frozenset(cells[3].split()) - {"-"}
        known = {row.name for row in rows.values() if row.path.startswith("brigade/")} | {ANY, UMBRELLA}
        if names - known:
            raise TableError(f"{path[1]} may include {', '.join(sorted(names - known))}, which no row above it names")
        rows[path[1]] = Row(path[1], cells[1] == "built", above_torch, names)
    return rows

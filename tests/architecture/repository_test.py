"""Holds this checkout to the folder table of docs/design/architecture.md: one test a rule.

BRIGADE_COMPILE_COMMANDS names the compile_commands.json of a build of everything; ctest sets it.
"""
import os
import pathlib
import unittest

import folder_table
import rules
from source_tree import SourceTree

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Repository(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = SourceTree(ROOT, os.environ.get("BRIGADE_COMPILE_COMMANDS"))
        cls.table = folder_table.parse((ROOT / "docs/design/architecture.md").read_text(encoding="utf-8"))

    def test_there_is_something_to_check(self):
        self.assertGreater(len(self.tree.sources), 10)
        self.assertIn("base", self.tree.modules)


def _add(rule):
    def test(self):
        violations = rule(self.tree, self.table)
        if violations:
            self.fail("\n  ".join([rule.__doc__, *violations]))
    setattr(Repository, f"test_{rule.__name__}", test)


for _rule in rules.ALL:
    _add(_rule)

if __name__ == "__main__":
    unittest.main()

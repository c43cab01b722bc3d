#!/usr/bin/env python3
"""Lists the test cases (GoogleTest's and unittest's) that were skipped, with their reasons, from ctest's LastTest.log.

usage: list_skips.py LOG
"""
import re
import sys


def skips(lines):
    """Yields (case, reason) for each skipped case. A reason is the text between `FILE:LINE: Skipped` and the result line."""
    reason = []
    inside = False
    for line in lines:
        line = line.rstrip("\n")
        python = re.match(r"(?:\w+ \()?([\w.]+)\)? \.\.\. skipped ['\"](.*)['\"]$", line)
        if python:
            yield python[1], python[2]
            continue
        result = re.match(r"\[  SKIPPED \] (\S+) \(\d+ ms\)$", line)
        if result:
            yield result[1], " ".join(reason) or "no reason given"
            inside = False
        elif re.search(r":\d+: Skipped$", line):
            inside, reason = True, []
        elif line.startswith("[ RUN      ]"):
            inside, reason = False, []
        elif inside and line.strip():
            reason.append(line.strip())


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        found = list(skips(log))
    if not found:
        print("no test was skipped")
        return
    print(f"{len(found)} test cases were skipped:")
    for case, reason in found:
        print(f"  {case}: {reason}")


if __name__ == "__main__":
    main()

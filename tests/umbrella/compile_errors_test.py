"""Common mistakes of first programs are reported in a sentence, not in pages of templates."""
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER / "compile_errors.cpp"
MOST_LINES = 20  # a mistake


def expected():
    """The expected sentence of each marked line, by function."""
    found, function = {}, None
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        start = re.match(r"void (\w+)\(", line)
        function = start[1] if start else function
        if "  // error: " in line:
            found[function] = line.split("  // error: ")[1]
    return found


def compiled():
    """As the build compiles an example: with the precompiled umbrella header, without which this takes twenty seconds."""
    entries = json.loads(pathlib.Path(os.environ["BRIGADE_COMPILE_COMMANDS"]).read_text(encoding="utf-8"))
    entry = next(entry for entry in entries if entry["file"].endswith("/examples/custom_batch.cpp"))
    words = shlex.split(entry["command"])
    words = words[:words.index("-o")] + ["-fsyntax-only", "-fdiagnostics-color=never", "-w", str(SOURCE)]
    words += ["-ferror-limit=0"] if is_clang() else []
    return subprocess.run(words, cwd=entry["directory"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=280,
                          check=False, env={**os.environ, "LC_ALL": "C"})


def first_errors(text):
    """Of each function. g++ reports where a template was instantiated before the error, Clang after it."""
    functions = {}
    for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        start = re.match(r"void (\w+)\(", line)
        functions[number] = start[1] if start else functions.get(number - 1)
    found, line_number, unplaced = {}, 0, None
    for line in text.splitlines():
        where = None if line.startswith("In file included from") else re.search(rf"{SOURCE.name}:(\d+):", line)
        line_number = int(where[1]) if where else line_number
        if ": error: " in line:
            unplaced = line.split(": error: ", 1)[1]
        if unplaced and (where or not is_clang()):
            found.setdefault(functions.get(line_number), unplaced)
            unplaced = None
    return found


@functools.cache
def is_clang():
    return "clang" in subprocess.run([os.environ["BRIGADE_CXX"], "--version"], capture_output=True, text=True, check=True).stdout


class CompileErrors(unittest.TestCase):
    def test_the_first_of_each_mistake_is_a_sentence(self):
        result = compiled()
        self.assertNotEqual(0, result.returncode)
        sentences = expected()
        self.assertEqual(17, len(sentences))
        found = first_errors(result.stderr)
        for function, sentence in sentences.items():
            with self.subTest(function):
                self.assertIn("static assertion failed", found.get(function, ""))
                self.assertIn(sentence, found[function])
        self.assertLess(len(result.stderr.splitlines()), MOST_LINES * len(sentences), result.stderr)


if __name__ == "__main__":
    unittest.main()

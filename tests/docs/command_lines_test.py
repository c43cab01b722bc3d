"""The command lines of the README and the guide have commands and flags that `brigade` has."""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIGADE = os.environ["BRIGADE_FRONT"]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]
FEWEST = 60  # command lines that are found; fewer means that reading them failed


@functools.cache
def help_of(command):
    """What `brigade COMMAND --help` writes."""
    result = subprocess.run([BRIGADE, *command, "--help"], capture_output=True, text=True, timeout=60, check=True)
    return result.stdout


@functools.cache
def commands():
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", help_of(()), flags=re.MULTILINE)[1]
    return re.findall(r"^  (\w+)", listed, flags=re.MULTILINE)


@functools.cache
def flags(command):
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(command).split("\nExamples:")[0]))


def problems(words):
    """What is wrong with the words that follow `brigade`."""
    if not words or words[0] in ("--help", "--version"):
        return []
    if words[0] not in commands():
        return [f"there is no command {words[0]}"]
    command = tuple(words[:2] if words[:2] == ["data", "stats"] else words[:1])
    rest, started = words[len(command):], []
    if command == ("launch",) and "--" in rest:
        rest, started = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    unknown = [word.split("=")[0] for word in rest if re.match(r"--[a-z]", word) and word.split("=")[0] not in flags(command)]
    found = [f"brigade {' '.join(command)} has no {flag}" for flag in unknown]
    if started and started[0].split("/")[-1] == "brigade":
        found += problems(started[1:])
    return found


def words_of(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quote that the rest of a script closes
        return line.split()


def invocations(line):
    """The words after each `brigade` that is called in a line of a script, up to the command's end."""
    for match in re.finditer(r"(?:^|[\s('\"])(?:\S*/bin/|exec |\S+=\S+ )*brigade ((?=[a-z])(?:'[^']*'|\"[^\"]*\"|[^|;&)'\"#<>`]|(?<=\S)#)+)", line):
        before = line[:match.start()]
        if " -- " in before + " " and "brigade launch" in before:
            continue  # what a launcher starts is checked with the launcher
        yield words_of(match[1])


def command_lines(text):
    """The words after `brigade` of every call in blocks of shell and YAML, and in text between backticks."""
    for block in re.findall(r"```(?:sh|bash|yaml)\n(.*?)```", text, flags=re.DOTALL):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if not line.lstrip().startswith("#"):
                yield from invocations(line)
        for listed in re.findall(r"(?:command|args): \[brigade, ([^\]]*)\]", block):
            yield [word.strip().strip('"') for word in listed.split(",")]
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if re.match(r"brigade [a-z]+( |$)", code):
            yield words_of(code[len("brigade "):])


class CommandLines(unittest.TestCase):
    def test_of_the_documents_are_known(self):
        count = 0
        for document in DOCUMENTS:
            for words in command_lines(document.read_text(encoding="utf-8")):
                if words[0] in ("COMMAND", "SUB"):
                    continue
                count += 1
                with self.subTest(document=document.name, command=" ".join(words)):
                    self.assertEqual([], problems(words))
        self.assertGreaterEqual(count, FEWEST)

    def test_blocks_of_shell_parse(self):
        for document in DOCUMENTS:
            for block in re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL):
                with self.subTest(document=document.name, block=block):
                    result = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual("", result.stderr)

    def test_a_wrong_one_is_found(self):
        lines = list(command_lines("```sh\nbrigade train --modle mlp \\\n  --epochs 2  # comment\n"
                                   "brigade launch --nproc 2 -- brigade trian --x\n```\nsee `brigade inspekt A`\n"))
        self.assertEqual([["brigade train has no --modle"], ["there is no command trian"], ["there is no command inspekt"]],
                         [problems(words) for words in lines])

    def test_variables_of_the_environment_exist(self):
        sources = "".join(path.read_text(encoding="utf-8") for folder in ("brigade", "apps", "cmake")
                          for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".cmake"))
        sources += (ROOT / "dev").read_text(encoding="utf-8") + (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        for document in DOCUMENTS:
            for name in sorted(set(re.findall(r"\bBRIGADE_[A-Z_]+\b", document.read_text(encoding="utf-8")))):
                with self.subTest(document=document.name, variable=name):
                    self.assertIn(name, sources)


if __name__ == "__main__":
    unittest.main()

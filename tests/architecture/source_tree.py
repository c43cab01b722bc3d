"""The C++ files and CMake declarations of a checkout, as far as the architecture's rules look at them."""
import dataclasses
import functools
import json
import pathlib
import re

ROOTS = ("brigade", "apps", "examples", "tests", "benchmarks")

# Comments and literals. Strings are matched so that a `//` inside one does not start a comment; a quote after a digit is
# a digit separator.
_TOKENS = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<literal>R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\[^\']*|[^\'\\])\')',
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Include:
    path: str
    quoted: bool


@dataclasses.dataclass(frozen=True)
class Source:
    """One C++ file; `path` is relative to the checkout."""

    path: str
    text: str

    @functools.cached_property
    def includes(self):
        code = _TOKENS.sub(lambda match: " " if match["comment"] else match[0], self.text)
        return [Include(path, mark == '"') for mark, path in _INCLUDE.findall(code)]

    @functools.cached_property
    def code(self):
        """The text without comments and literals."""
        return _TOKENS.sub(" ", self.text)

    @functools.cached_property
    def literals(self):
        """The string literals outside of comments, with their quotes."""
        return [match[0] for match in _TOKENS.finditer(self.text) if not match["comment"]]

    @property
    def is_test(self):
        return self.path.endswith("_test.cpp")


@dataclasses.dataclass(frozen=True)
class Module:
    """A folder's brigade_module(...) call."""

    name: str
    depends: frozenset
    sources: frozenset
    serial_tests: frozenset
    torch: bool


_KEYWORDS = {"DEPENDS", "LIBRARIES", "SOURCES", "TESTING", "TESTS", "SERIAL_TESTS", "TEST_LIBRARIES"}


def parse_module(cmake_text):
    """The brigade_module(...) of a CMakeLists.txt, or None."""
    text = re.sub(r"#[^\n]*", "", cmake_text)
    call = re.search(r"\bbrigade_module\(([^)]*)\)", text)
    if not call:
        return None
    name, *words = call[1].split()
    files, keyword, torch = {each: set() for each in _KEYWORDS}, None, False
    for word in words:
        if word in _KEYWORDS:
            keyword = word
        elif word == "TORCH":
            torch = True
        elif keyword:
            files[keyword].add(word)
    return Module(name, frozenset(files["DEPENDS"]), frozenset(files["SOURCES"]), frozenset(files["SERIAL_TESTS"]), torch)


def _compiled_files(compile_commands):
    entries = json.loads(compile_commands.read_text(encoding="utf-8"))
    files = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in entries}
    return files.union(*(_included_together(file) for file in files if file.parent.name == "Unity"))


def _included_together(unity_source):
    """The sources that a file of CMake's unity build includes."""
    return {pathlib.Path(path).resolve() for _, path in _INCLUDE.findall(unity_source.read_text(encoding="utf-8"))}


def _below(folder, files):
    return {file.relative_to(folder).as_posix() for file in files if file.is_relative_to(folder)}


class SourceTree:
    """A checkout at `root`.

    `compile_commands` is the file that CMake wrote for a build of everything. From it come `built`, the files of the checkout
    that some target compiles (None without it: then the rules about the build are left out), and `compiled_headers`, the
    headers for which brigade_module() made a file that includes nothing else.
    """

    def __init__(self, root, compile_commands=None):
        self.root = pathlib.Path(root)
        self.sources = {source.path: source for source in self._read_sources()}
        self.modules = dict(self._read_modules())
        self.built, self.compiled_headers = None, frozenset()
        if compile_commands is not None:
            compile_commands = pathlib.Path(compile_commands).resolve()
            compiled = _compiled_files(compile_commands)
            self.built = _below(self.root.resolve(), compiled)
            headers = _below(compile_commands.parent / "headers", compiled)
            self.compiled_headers = {name.removesuffix(".cpp") for name in headers}

    def in_folder(self, folder):
        return [source for path, source in self.sources.items() if path.startswith(folder + "/")]

    def _read_sources(self):
        for top in ROOTS:
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in (".h", ".cpp") and path.is_file():
                    yield Source(path.relative_to(self.root).as_posix(), path.read_text(encoding="utf-8"))

    def _read_modules(self):
        for path in sorted((self.root / "brigade").glob("*/CMakeLists.txt")):
            module = parse_module(path.read_text(encoding="utf-8"))
            if module:
                yield path.parent.name, module

"""Proves that each rule can fail: a small checkout that keeps all of them, and one change a test that breaks one."""
import json
import pathlib
import tempfile
import unittest

import folder_table
import rules
from source_tree import SourceTree

TABLE = """
| folder | state | what lives there | may include |
|---|---|---|---|
| **no torch here** | | | |
| `brigade/base` | built | errors | - |
| `brigade/io` | built | files | base |
| `brigade/rpc` | planned | messages | base |
| **values: torch begins** | | | |
| `brigade/device` | built | devices | base |
| **around the library** | | | |
| `apps/brigade` | built | the command | * |
| `examples` | built | programs | umbrella |
"""

# A checkout that keeps every rule.
FILES = {
    "brigade/base/CMakeLists.txt": "brigade_module(base SOURCES ambient.cpp error.cpp TESTS error_test.cpp)",
    "brigade/base/ambient.cpp": "thread_local int slot;",
    "brigade/base/error.h": "#pragma once\n",
    "brigade/base/error.cpp": '// why\n#include "brigade/base/error.h"\n#include <string>\n',
    "brigade/base/error_test.cpp": '#include "brigade/base/error.h"\n',
    "brigade/io/CMakeLists.txt": "brigade_module(io\n  DEPENDS base  # errors\n  SOURCES file.cpp)",
    "brigade/io/file.h": '#pragma once\n#include "brigade/base/error.h"\n',
    "brigade/io/file.cpp": '#include "brigade/io/file.h"\n',
    "brigade/device/CMakeLists.txt": "brigade_module(device TORCH DEPENDS base SOURCES device.cpp TESTS list_test.cpp)",
    "brigade/device/device.h": "#pragma once\n#include <ATen/core/Tensor.h>\n",
    "brigade/device/device.cpp": '#include "brigade/device/device.h"\n#ifdef BRIGADE_WITH_CUDA\n#endif\n'
                                 '#include "brigade/base/error.h"\n',
    "brigade/device/list.h": "#pragma once\n",
    "brigade/device/list_test.cpp": '#include "brigade/device/list.h"\n',
    "brigade/brigade.h": '#pragma once\n#include "brigade/device/device.h"\n',
    "apps/brigade/main.cpp": '#include "brigade/device/device.h"\n',
    "examples/hello.cpp": "#include <brigade/brigade.h>\n",
}


def violations(changes=None, table=TABLE, not_compiled=()):
    """What the rules say of FILES with `changes` (None removes a file), as {rule's name: [sentence]}."""
    files = {path: text for path, text in {**FILES, **(changes or {})}.items() if text is not None}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        commands = root / "compile_commands.json"
        commands.write_text(json.dumps([{"directory": folder, "file": path} for path in files
                                        if path.endswith(".cpp") and path not in not_compiled]))
        tree = SourceTree(root, commands)
        parsed = folder_table.parse(table)
        found = {rule.__name__: rule(tree, parsed) for rule in rules.ALL}
    return {name: sentences for name, sentences in found.items() if sentences}


class Rules(unittest.TestCase):
    def assert_breaks(self, rule, count=1, **arguments):
        found = violations(**arguments)
        self.assertEqual([rule.__name__], list(found), found)
        self.assertEqual(count, len(found[rule.__name__]), found)

    def test_a_clean_checkout_breaks_none(self):
        self.assertEqual({}, violations())

    def test_include_that_the_row_forbids(self):
        self.assert_breaks(rules.includes_stay_in_row,
                           changes={"brigade/base/error.cpp": '#include "brigade/base/error.h"\n#include "brigade/io/file.h"\n'})

    def test_include_that_the_row_forbids_in_angle_brackets(self):
        self.assert_breaks(rules.includes_stay_in_row,
                           changes={"brigade/base/error.cpp": '#include "brigade/base/error.h"\n# include <brigade/io/file.h>\n'})

    def test_include_that_the_row_forbids_in_a_test(self):
        self.assert_breaks(rules.includes_stay_in_row, changes={
            "brigade/base/error_test.cpp": '#include "brigade/base/error.h"\n#include "brigade/device/list.h"\n'})

    def test_include_in_a_comment_is_none(self):
        self.assertEqual({}, violations({
            "brigade/base/error.cpp": '/*\n#include "brigade/io/file.h"\n*/\n#include "brigade/base/error.h"\n'}))

    def test_narrow_header_in_an_example(self):
        self.assert_breaks(rules.includes_stay_in_row, changes={"examples/hello.cpp": '#include "brigade/io/file.h"\n'})

    def test_umbrella_in_the_product(self):
        self.assert_breaks(rules.umbrella_is_for_users, changes={
            "brigade/device/device.cpp": '#include "brigade/device/device.h"\n#include "brigade/brigade.h"\n'
                                         '#include "brigade/base/error.h"\n'})

    def test_umbrella_in_the_command(self):
        self.assert_breaks(rules.umbrella_is_for_users, changes={"apps/brigade/main.cpp": '#include "brigade/brigade.h"\n'})

    def test_relative_include(self):
        self.assert_breaks(rules.quoted_includes_are_full_paths, changes={
            "brigade/io/file.cpp": '#include "brigade/io/file.h"\n#include "../device/list.h"\n'})

    def test_torch_header_above_the_line(self):
        self.assert_breaks(rules.no_torch_above_the_line, changes={
            "brigade/io/file.cpp": '#include "brigade/io/file.h"\n#include <c10/util/Exception.h>\n'})

    def test_torch_target_above_the_line(self):
        self.assert_breaks(rules.no_torch_above_the_line, changes={
            "brigade/io/CMakeLists.txt": "brigade_module(io TORCH DEPENDS base SOURCES file.cpp)"})

    def test_depends_beyond_the_row(self):
        self.assert_breaks(rules.declared_depends_match, changes={
            "brigade/io/CMakeLists.txt": "brigade_module(io DEPENDS base device SOURCES file.cpp)"})

    def test_depends_that_lack_an_included_folder(self):
        self.assert_breaks(rules.declared_depends_match, changes={
            "brigade/io/CMakeLists.txt": "brigade_module(io SOURCES file.cpp)  # DEPENDS base"})

    def test_test_file_without_a_target(self):
        self.assert_breaks(rules.tests_are_built, not_compiled=["brigade/device/list_test.cpp"])

    def test_header_that_is_not_its_sources_first_include(self):
        self.assert_breaks(rules.headers_stand_alone, changes={
            "brigade/io/file.cpp": '#include <string>\n#include "brigade/io/file.h"\n'})

    def test_header_that_is_not_its_tests_first_include(self):
        self.assert_breaks(rules.headers_stand_alone, changes={
            "brigade/device/list_test.cpp": '#include <string>\n#include "brigade/device/list.h"\n'})

    def test_header_without_source_and_test(self):
        self.assert_breaks(rules.headers_stand_alone, changes={"brigade/device/alone.h": "#pragma once\n"})

    def test_header_that_cmake_compiles_alone(self):
        self.assertEqual({}, violations({"brigade/device/alone.h": "#pragma once\n",
                                         "headers/brigade/device/alone.h.cpp": '#include "brigade/device/alone.h"\n'}))

    def test_thread_local_elsewhere(self):
        self.assert_breaks(rules.one_home_for_thread_local, changes={"apps/brigade/main.cpp": "static thread_local int x;"})

    def test_thread_local_in_comments_and_strings_is_none(self):
        self.assertEqual({}, violations({
            "apps/brigade/main.cpp": "// thread_local\nauto n = 10'000; auto s = \"thread_local\"; auto m = 1'0;"}))

    def test_thread_local_after_a_digit_separator(self):
        self.assert_breaks(rules.one_home_for_thread_local,
                           changes={"apps/brigade/main.cpp": "int a = 10'000; thread_local int b; int c = 10'000;"})

    def test_cuda_condition_in_a_caller(self):
        self.assert_breaks(rules.cuda_conditions_stay_in_backends,
                           changes={"apps/brigade/main.cpp": "#if defined(BRIGADE_WITH_CUDA)\n#endif\n"})

    def test_cuda_condition_in_a_header(self):
        self.assert_breaks(rules.cuda_conditions_stay_in_backends,
                           changes={"brigade/device/list.h": "#pragma once\n#ifdef USE_CUDA\n#endif\n"})

    def test_message_of_the_library_that_names_a_flag(self):
        self.assert_breaks(rules.library_names_no_flags, changes={
            "brigade/base/error.cpp": '#include "brigade/base/error.h"\nauto s = "use fewer, or "\n  "pass --allow-it";'})

    def test_flags_in_comments_and_whole_command_lines_are_none(self):
        self.assertEqual({}, violations({
            "brigade/base/error.cpp": '#include "brigade/base/error.h"\n// as --flag does\n'
                                      'auto s = "make one with `brigade launch "\n  "--new-key`";'}))

    def test_folder_without_a_row(self):
        self.assert_breaks(rules.folders_have_rows, changes={
            "brigade/extra/x.h": "#pragma once\n", "brigade/extra/x.cpp": '#include "brigade/extra/x.h"\n'})

    def test_folder_that_is_still_planned(self):
        self.assert_breaks(rules.folders_have_rows, changes={
            "brigade/rpc/x.h": "#pragma once\n", "brigade/rpc/x.cpp": '#include "brigade/rpc/x.h"\n'})

    def test_built_row_without_a_folder(self):
        self.assert_breaks(rules.folders_have_rows, changes={"examples/hello.cpp": None})

    def test_headers_with_the_same_basename(self):
        self.assert_breaks(rules.basenames_are_unique, changes={
            "brigade/device/file.h": "#pragma once\n", "brigade/device/file_test.cpp": '#include "brigade/device/file.h"\n'})

    def test_sources_with_the_same_basename_in_a_folder_below(self):
        self.assert_breaks(rules.basenames_are_unique, changes={"brigade/device/testing/error_test.cpp": ""})

    def test_a_header_and_its_source_share_a_name_and_files_outside_of_brigade_may(self):
        self.assertEqual({}, violations({"apps/brigade/file.cpp": ""}))

    def test_types_of_the_same_name(self):
        for first, second in (("struct Options {\n};", "class Options final : public Base {\n};"),
                              ("enum class Options { kA };", "template <class T>\nstruct Options {\n};"),
                              ("using Options = int;", "struct [[nodiscard]] Options {\n};")):
            self.assert_breaks(rules.type_names_are_unique, changes={
                "brigade/base/one.h": first, "brigade/base/one_test.cpp": '#include "brigade/base/one.h"\n',
                "brigade/io/two.h": second, "brigade/io/two_test.cpp": '#include "brigade/io/two.h"\n'})

    def test_nested_types_declarations_and_frameworks_types_may_have_the_same_name(self):
        self.assertEqual({}, violations({
            "brigade/base/one.h": "struct Options {\n  struct Inner {};\n};\n",
            "brigade/base/one_test.cpp": '#include "brigade/base/one.h"\n',
            "brigade/io/two.h": "struct Options;\nstruct Two {\n  struct Inner {};\n};\n",
            "brigade/io/two_test.cpp": '#include "brigade/io/two.h"\n'}))

    def test_testing_header_in_the_product(self):
        header = {"brigade/base/testing/clock.h": "#pragma once\n",
                  "brigade/base/testing/clock_test.cpp": '#include "brigade/base/testing/clock.h"\n'}
        self.assertEqual({}, violations(header))
        self.assert_breaks(rules.testing_is_for_tests, changes={
            **header, "brigade/io/file.cpp": '#include "brigade/io/file.h"\n#include "brigade/base/testing/clock.h"\n'})
        self.assert_breaks(rules.testing_is_for_tests, changes={
            **header, "apps/brigade/main.cpp": "#include <brigade/base/testing/clock.h>\n"})

    def test_testing_header_in_tests_and_their_support(self):
        self.assertEqual({}, violations({
            "brigade/base/testing/clock.h": "#pragma once\n",
            "brigade/base/testing/clock.cpp": '#include "brigade/base/testing/clock.h"\n',
            "brigade/io/testing/disk.h": '#include "brigade/base/testing/clock.h"\n',
            "brigade/io/testing/disk_test.cpp": '#include "brigade/io/testing/disk.h"\n'}))

    def test_testing_source_in_a_library_of_the_product(self):
        files = {"brigade/io/testing/disk.cpp": "",
                 "brigade/io/CMakeLists.txt": "brigade_module(io DEPENDS base SOURCES file.cpp TESTING testing/disk.cpp)"}
        self.assertEqual({}, violations(files))
        self.assert_breaks(rules.testing_is_for_tests, changes={
            **files, "brigade/io/CMakeLists.txt": "brigade_module(io DEPENDS base SOURCES file.cpp testing/disk.cpp)"})

    def test_serial_test_that_starts_a_thread(self):
        files = {"brigade/io/file_test.cpp": '#include "brigade/io/file.h"\nstd::thread other;\n',
                 "brigade/io/CMakeLists.txt": "brigade_module(io DEPENDS base SOURCES file.cpp TESTS file_test.cpp)"}
        self.assertEqual({}, violations(files))
        self.assert_breaks(rules.serial_tests_start_no_thread, changes={
            **files, "brigade/io/CMakeLists.txt":
                "brigade_module(io DEPENDS base SOURCES file.cpp TESTS file_test.cpp SERIAL_TESTS file_test.cpp)"})

    def test_every_rule_has_been_seen_to_fail(self):
        text = pathlib.Path(__file__).read_text(encoding="utf-8")
        self.assertEqual([], [rule.__name__ for rule in rules.ALL if f"assert_breaks(rules.{rule.__name__}" not in text])


class FolderTable(unittest.TestCase):
    def test_row_that_names_a_folder_below_it(self):
        with self.assertRaisesRegex(folder_table.TableError, "brigade/base may include io"):
            folder_table.parse(TABLE.replace("| errors | - |", "| errors | io |"))

    def test_row_with_an_unknown_state(self):
        with self.assertRaisesRegex(folder_table.TableError, "not a row"):
            folder_table.parse(TABLE.replace("| planned |", "| soon |"))

    def test_text_without_a_table(self):
        with self.assertRaisesRegex(folder_table.TableError, "no table"):
            folder_table.parse("nothing here")


if __name__ == "__main__":
    unittest.main()

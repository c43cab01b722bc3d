"""The architecture's rules. Each takes (tree, table) and returns its violations, one sentence each."""
import re

from folder_table import ANY, UMBRELLA

UMBRELLA_HEADER = "brigade/brigade.h"
THREAD_LOCAL_HOME = "brigade/base/ambient.cpp"
CUDA_CONDITION_HOMES = ("brigade/device/", "brigade/comm/")
_TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
_THREADS = re.compile(r"\bstd::(j?thread|async)\b|\bparallelism\b|\bprefetch\(|\bkAutotune\b|\bWorkers\b")
_CUDA_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b.*CUDA", re.MULTILINE)


def _row_of(source, table):
    """The row that owns a file: the longest folder of the table that contains its path."""
    owners = [path for path in table if source.path.startswith(path + "/")]
    return table[max(owners, key=len)] if owners else None


def _folder_of_header(include_path):
    """`io` for brigade/io/file_system.h; None for headers that are not a folder's."""
    match = re.fullmatch(r"brigade/(\w+)/.+", include_path)
    return match[1] if match else None


def folders_have_rows(tree, table):
    """A folder of brigade/ with code has a row that says `built`, and a row that says so has a folder."""
    with_code = {"/".join(path.split("/")[:2]) for path in tree.sources if re.match(r"brigade/\w+/", path)}
    built = {path for path, row in table.items() if row.built}
    found = [f"{folder} has code, but no row of the folder table says that it is built"
             for folder in sorted(with_code - built)]
    found += [f"{path} is `built` in the folder table, but does not exist"
              for path in sorted(built) if not (tree.root / path).is_dir()]
    return found


def includes_stay_in_row(tree, table):
    """A file includes only headers of its own folder and of the folders that its row names."""
    found = []
    for source in tree.sources.values():
        row = _row_of(source, table)
        if row is None or ANY in row.may_include:
            continue
        for include in source.includes:
            folder = _folder_of_header(include.path)
            own = row.path == f"brigade/{folder}"
            if folder and not own and folder not in row.may_include:
                allowed = " ".join(sorted(row.may_include)) or "nothing"
                found.append(f"{source.path} includes {include.path}; {row.path} may include: {allowed}")
    return found


def testing_is_for_tests(tree, table):
    """Product code includes no header of a testing/ folder, and no target of the product compiles a source of one."""
    found = [f"{source.path} includes {include.path}, which is for tests"
             for top in ("brigade", "apps", "examples") for source in tree.in_folder(top)
             if not source.is_test and "/testing/" not in source.path
             for include in source.includes if "/testing/" in include.path]
    return found + [f"brigade/{name}/CMakeLists.txt has {file} in SOURCES; sources of testing/ belong to TESTING or TESTS"
                    for name, module in tree.modules.items()
                    for file in sorted(module.sources) if file.startswith("testing/")]


def library_names_no_flags(tree, table):
    """Messages of the library name no flags of the command, which programs do not have."""
    found = []
    for source in tree.sources.values():
        if source.is_test or not re.match(r"brigade/(?!launch/)", source.path):
            continue
        text = " ".join(literal.strip('"') for literal in source.literals)
        for flag in re.findall(r"(?<![-\w])--[a-z][-a-z]*", re.sub(r"brigade\s+launch\s+--new-key", "", text)):
            found.append(f"{source.path} names {flag}: say what a program does, and let the command add its flag")
    return found


def umbrella_is_for_users(tree, table):
    """Only folders whose row says `umbrella` include brigade/brigade.h."""
    found = []
    for source in tree.sources.values():
        row = _row_of(source, table)
        if row is not None and UMBRELLA not in row.may_include:
            if any(include.path == UMBRELLA_HEADER for include in source.includes):
                found.append(f"{source.path} includes {UMBRELLA_HEADER}; that header is for users of the library")
    return found


def quoted_includes_are_full_paths(tree, table):
    """A quoted include in brigade/ gives the path from the top; a relative one would slip past the other rules."""
    return [f"{source.path} includes \"{include.path}\"; write the path from the top: \"brigade/...\""
            for source in tree.in_folder("brigade") for include in source.includes
            if include.quoted and not include.path.startswith("brigade/")]


def no_torch_above_the_line(tree, table):
    """Folders above the torch line include no torch header and their target has no TORCH."""
    found = []
    for path, row in table.items():
        if not row.above_torch:
            continue
        for source in tree.in_folder(path):
            found += [f"{source.path} includes <{include.path}>, but {path} stands above the torch line"
                      for include in source.includes if _TORCH.match(include.path)]
        module = tree.modules.get(row.name)
        if module and module.torch:
            found.append(f"{path}/CMakeLists.txt says TORCH, but the folder stands above the torch line")
    return found


def declared_depends_match(tree, table):
    """A target's DEPENDS stay within its row, and name every folder that its files (tests apart) include."""
    found = []
    for name, module in tree.modules.items():
        row = table.get(f"brigade/{name}")
        if row is None:
            continue  # folders_have_rows reports it
        for folder in sorted(module.depends - row.may_include):
            found.append(f"brigade/{name}/CMakeLists.txt depends on {folder}, which its row does not allow")
        included = {_folder_of_header(include.path) for source in tree.in_folder(row.path) if not source.is_test
                    for include in source.includes} - {None, name}
        for folder in sorted((included & row.may_include) - module.depends):
            found.append(f"brigade/{name} includes headers of {folder}; its CMakeLists.txt does not list it in DEPENDS")
    return found


def tests_are_built(tree, table):
    """Every *_test.cpp belongs to a target. Those in tests/gpu belong to one of builds for GPUs."""
    if tree.built is None:
        return []
    return [f"{source.path} is built by no target" for source in tree.sources.values()
            if source.is_test and source.path not in tree.built and not source.path.startswith("tests/gpu/")]


def serial_tests_start_no_thread(tree, table):
    """What ThreadSanitizer's build leaves out has no threads to look at."""
    paths = (f"brigade/{name}/{file}" for name, module in tree.modules.items() for file in sorted(module.serial_tests))
    return [f"{path} is one of SERIAL_TESTS, but starts threads: leave it to TESTS alone"
            for path in paths if path in tree.sources and _THREADS.search(tree.sources[path].code)]


def headers_stand_alone(tree, table):
    """Some .cpp has x.h as its very first include: x.cpp must; without x.cpp, x_test.cpp must; without either, CMake makes one."""
    found = []
    for source in tree.in_folder("brigade"):
        if not source.path.endswith(".h") or source.path == UMBRELLA_HEADER:
            continue
        stem = source.path[:-len(".h")]
        for candidate in (f"{stem}.cpp", f"{stem}_test.cpp"):
            if candidate in tree.sources:
                includes = tree.sources[candidate].includes
                if not includes or includes[0].path != source.path:
                    found.append(f"{candidate} must include {source.path} first, which proves that the header stands alone")
                break
        else:
            if tree.built is not None and source.path not in tree.compiled_headers:
                found.append(f"{source.path} has neither a .cpp nor a _test.cpp, and no brigade_module() compiles it alone")
    return found


def one_home_for_thread_local(tree, table):
    """thread_local occurs in the ambient context's source alone."""
    return [f"{source.path} uses thread_local; use a slot of brigade/base/ambient.h"
            for source in tree.sources.values()
            if source.path != THREAD_LOCAL_HOME and re.search(r"\bthread_local\b", source.code)]


def cuda_conditions_stay_in_backends(tree, table):
    """#if ... CUDA occurs only in a .cpp of the folders that hold backends."""
    return [f"{source.path} has a preprocessor condition on CUDA; only a .cpp of {' or '.join(CUDA_CONDITION_HOMES)} may"
            for source in tree.sources.values()
            if _CUDA_CONDITION.search(source.code)
            and not (source.path.startswith(CUDA_CONDITION_HOMES) and source.path.endswith(".cpp"))]


def basenames_are_unique(tree, table):
    """No two headers, and no two .cpp files, of brigade/ have the same basename."""
    first, found = {}, []
    for source in sorted(tree.in_folder("brigade"), key=lambda each: each.path):
        basename = source.path.rsplit("/", 1)[-1]
        if basename in first:
            found.append(f"{source.path} has the same basename as {first[basename]}; name one of them after what it holds")
        first.setdefault(basename, source.path)
    return found


# Folders whose types have the names of another framework's, in a namespace of theirs: TensorFlow 1's layers, Keras's layers
# and metrics. `Padding` is both TensorFlow's argument of a layer and a hook of data, beside `Structure` and `Unbatch`.
NAMED_BY_A_FRAMEWORK = ("brigade/layers/v1/", "brigade/models/keras/", "brigade/metrics/")
MAY_BE_TWICE = {"Padding"}
_TYPE = re.compile(r"^(?:template[^\n;{]*\n?)?(?:(?:class|struct|enum class|enum)\s+(?:\[\[\w+\]\]\s+)?(\w+)(?:\s+final)?\s*"
                   r"(?::[^:;{][^;{]*)?\{|using\s+(\w+)\s*=)", re.MULTILINE)


def type_names_are_unique(tree, table):
    """No two headers of brigade/ define types of the same name, apart from nested ones and those that frameworks name."""
    first, found = {}, []
    for source in sorted(tree.in_folder("brigade"), key=lambda each: each.path):
        if not source.path.endswith(".h") or "/testing/" in source.path or source.path.startswith(NAMED_BY_A_FRAMEWORK):
            continue
        for match in _TYPE.finditer(source.code):
            name = match[1] or match[2]
            other = first.setdefault(name, source.path)
            if other != source.path and name not in MAY_BE_TWICE:
                found.append(f"{source.path} defines {name}, as {other} does; give one of them a name that tells them apart")
    return found


ALL = (folders_have_rows, includes_stay_in_row, umbrella_is_for_users, quoted_includes_are_full_paths,
       no_torch_above_the_line, declared_depends_match, tests_are_built, headers_stand_alone, one_home_for_thread_local,
       cuda_conditions_stay_in_backends, library_names_no_flags, basenames_are_unique, type_names_are_unique,
       testing_is_for_tests, serial_tests_start_no_thread)

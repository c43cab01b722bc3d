# brigade_compile_together(<target> [IN_GROUPS_OF <number>]): where BRIGADE_UNITY_BUILD is on, its sources are compiled in groups
# of equal size, of at most eight or so many, since most of a source's time goes into the headers that all of a folder include.
# (CMake leaves out sources with compile options or definitions of their own.)
function(brigade_compile_together target)
  cmake_parse_arguments(ARG "" "IN_GROUPS_OF" "" ${ARGN})
  if(NOT ARG_IN_GROUPS_OF)
    set(ARG_IN_GROUPS_OF 8)
  endif()
  if(BRIGADE_UNITY_BUILD)
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    math(EXPR groups "(${count} + ${ARG_IN_GROUPS_OF} - 1) / ${ARG_IN_GROUPS_OF}")
    math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    # Every source is included there, so a class in one may have members of that source's own types.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# brigade_compile_alone(<file>...): sources that have helpers of the same names as others of their folder.
function(brigade_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# brigade_compile_fast(<target>): for what is compiled more often than it is run for long: the command, and folders whose code
# no step of a training waits for. Half of the optimizer's work would go into copies of inlined functions.
function(brigade_compile_fast target)
  target_compile_options(${target} PRIVATE
    $<$<CONFIG:Release>:-O1>
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:Clang>>:SHELL:-mllvm -inline-threshold=25>")
endfunction()

# brigade_limit_inlining(<target>): for folders whose steps wait for libtorch and gRPC, not for loops of our own: by Clang with -O2
# and half of its limit for inlining (225).
function(brigade_limit_inlining target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:Clang>>:SHELL:-O2 -mllvm -inline-threshold=100>")
endfunction()

# brigade_module(<folder> [TORCH] [COMPILE_FAST | LIMIT_INLINING] [DEPENDS <folder>...] [LIBRARIES <target>...]
#                [SOURCES <file>...] [TESTING <file>...] [TESTS <file>...] [SERIAL_TESTS <file>...]
#                [TEST_LIBRARIES <target>...])
#
# One static library a folder, brigade_<folder>, and one test program, <folder>_tests, which ctest runs as
# `<folder>` with the label `unit`. DEPENDS names the folders whose headers this folder includes; LIBRARIES
# are third-party ones, linked privately. A folder with no source of its own becomes a header-only target.
# COMPILE_FAST, LIMIT_INLINING: see brigade_compile_fast(), brigade_limit_inlining().
# TESTING names sources of the folder's testing/: a library, brigade_<folder>_testing, that the tests of this folder and of
# those that depend on it link, and no product target does. SERIAL_TESTS names those of TESTS that start no thread: they show
# ThreadSanitizer nothing, so its build leaves them out.
function(brigade_module folder)
  cmake_parse_arguments(ARG "TORCH;COMPILE_FAST;LIMIT_INLINING" ""
                        "DEPENDS;LIBRARIES;SOURCES;TESTING;TESTS;SERIAL_TESTS;TEST_LIBRARIES" ${ARGN})
  if(BRIGADE_SANITIZE MATCHES "thread")
    list(REMOVE_ITEM ARG_TESTS ${ARG_SERIAL_TESTS})
  endif()
  set(target brigade_${folder})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(brigade::${folder} ALIAS ${target})
  target_link_libraries(${target} ${scope} brigade_compiler Threads::Threads)
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} ${scope} brigade_${dependency})
  endforeach()
  if(ARG_TORCH)
    target_link_libraries(${target} ${scope} brigade_torch)
  endif()
  if(ARG_SOURCES)
    if(ARG_TORCH)
      brigade_use_torch_pch(${target})
    else()
      brigade_use_plain_pch(${target})
    endif()
    brigade_compile_together(${target} IN_GROUPS_OF 40)
    if(ARG_COMPILE_FAST)
      brigade_compile_fast(${target})
    elseif(ARG_LIMIT_INLINING)
      brigade_limit_inlining(${target})
    endif()
  endif()
  if(BRIGADE_BUILD_TESTS AND NOT BRIGADE_SANITIZE)  # a sanitizer has nothing to say of them
    brigade_compile_headers(${folder} "${ARG_TORCH}")
  endif()
  if(ARG_TESTING)
    add_library(${target}_testing STATIC EXCLUDE_FROM_ALL ${ARG_TESTING})
    target_link_libraries(${target}_testing PUBLIC ${target})
  endif()
  if(BRIGADE_BUILD_TESTS AND ARG_TESTS)
    set(testing "")
    foreach(used IN ITEMS ${folder} ${ARG_DEPENDS})
      if(TARGET brigade_${used}_testing)
        list(APPEND testing brigade_${used}_testing)
      endif()
    endforeach()
    set(torch "")
    if(ARG_TORCH)
      set(torch TORCH)
    endif()
    brigade_test(${folder} LABEL unit ${torch} SOURCES ${ARG_TESTS}
                 LIBRARIES ${target} ${testing} ${ARG_TEST_LIBRARIES})
  endif()
endfunction()

# brigade_test(<name> [TORCH] LABEL <label> SOURCES <file>... [LIBRARIES <target>...] [TIMEOUT <seconds>])
# A GoogleTest program <name>_tests, run by ctest as one test named <name>.
function(brigade_test name)
  cmake_parse_arguments(ARG "TORCH" "LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(BRIGADE_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name}_tests ${ARG_SOURCES})
  target_link_libraries(${name}_tests PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
    target_link_libraries(${name}_tests PRIVATE brigade_torch)
  endif()
  brigade_use_test_pch(${name}_tests ${torch})
  add_test(NAME ${name} COMMAND ${name}_tests)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
  brigade_schedule_test(${name})
endfunction()

# brigade_compile_headers(<folder> <with torch>) proves that headers stand alone: one that neither a .cpp nor a _test.cpp of
# its own includes first gets a file that includes nothing else (tests/architecture checks the rest). The target `headers`
# compiles them; `./dev test` builds it.
function(brigade_compile_headers folder torch)
  set(target brigade_${folder}_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.h)
  set(sources "")
  foreach(header IN LISTS headers)
    cmake_path(REMOVE_EXTENSION header OUTPUT_VARIABLE stem)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${stem}.cpp OR EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${stem}_test.cpp)
      continue()
    endif()
    set(source ${PROJECT_BINARY_DIR}/headers/brigade/${folder}/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"brigade/${folder}/${header}\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
    if(NOT TARGET headers)
      add_custom_target(headers)
    endif()
    add_dependencies(headers ${target})
    target_link_libraries(${target} PRIVATE brigade_${folder})
    if(torch)
      brigade_use_torch_pch(${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)  # together they would lend each other their includes
    endif()
  endif()
endfunction()

# brigade_python_test(<name> <label> <module>): a unittest module of this folder, run by ctest. Standard library only, and
# what tools/install_python.py installs, if it is there.
function(brigade_python_test name label module)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${name}
           COMMAND ${Python3_EXECUTABLE} -B -m unittest -v ${module}
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 60
    ENVIRONMENT_MODIFICATION "PYTHONPATH=path_list_append:${PROJECT_SOURCE_DIR}/.deps/python")
  brigade_schedule_test(${name})
endfunction()

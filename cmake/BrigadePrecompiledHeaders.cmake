# Precompiled headers: what most of a source's compile time goes into (docs/design/build.md has the figures).
#
# Programs that only run in tests are compiled more often than they are run, and the work is done in the libraries. Clang
# compiles them without optimization, with a precompiled header of their own, since it refuses one made with another
# optimization. One of g++'s has half a gigabyte, so there all targets have the same one.
set(BRIGADE_TORCH_HEADERS <torch/types.h> <torch/nn/module.h> <torch/optim/optimizer.h>)
set(BRIGADE_PLAIN_HEADERS <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional> <string> <thread>
    <utility> <variant> <vector>)
set(BRIGADE_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(BRIGADE_FAST_COMPILE_OPTIONS -fPIC $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
else()
  set(BRIGADE_FAST_COMPILE_OPTIONS -fPIC $<$<CONFIG:Release>:-O1>)
endif()

if(BRIGADE_USES_CCACHE)  # a precompiled header must not have the time of its making: ccache compares contents
  target_compile_options(brigade_compiler INTERFACE
    $<$<AND:${own},$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>
    "$<$<AND:${own},$<CXX_COMPILER_ID:Clang>>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# brigade_precompile(<target> HEADERS <header>... [LIBRARIES <target>...] [OPTIONS <option>...])
function(brigade_precompile target)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/pch/${target}.cpp "")
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/pch/${target}.cpp)
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} brigade_compiler Threads::Threads)
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()

# -fPIC for programs too (else -fPIE): one header serves both.
brigade_precompile(brigade_plain_pch HEADERS ${BRIGADE_PLAIN_HEADERS} OPTIONS -fPIC)
if(BRIGADE_WITH_TORCH)
  brigade_precompile(brigade_torch_pch HEADERS ${BRIGADE_TORCH_HEADERS} LIBRARIES brigade_torch OPTIONS -fPIC)
endif()
set(BRIGADE_UMBRELLA_PCH brigade_torch_pch)
set(BRIGADE_PLAIN_TEST_PCH "")
set(BRIGADE_TORCH_TEST_PCH brigade_torch_pch)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  if(BRIGADE_WITH_TORCH)
    set(BRIGADE_UMBRELLA_PCH brigade_umbrella_pch)
    brigade_precompile(${BRIGADE_UMBRELLA_PCH} HEADERS <brigade/brigade.h> LIBRARIES brigade::brigade
                       OPTIONS ${BRIGADE_FAST_COMPILE_OPTIONS})
  endif()
  if(BRIGADE_BUILD_TESTS)
    set(BRIGADE_PLAIN_TEST_PCH brigade_plain_test_pch)
    brigade_precompile(${BRIGADE_PLAIN_TEST_PCH} HEADERS ${BRIGADE_TEST_HEADERS} LIBRARIES GTest::gtest GTest::gmock
                       OPTIONS ${BRIGADE_FAST_COMPILE_OPTIONS})
    if(BRIGADE_WITH_TORCH)
      set(BRIGADE_TORCH_TEST_PCH brigade_torch_test_pch)
      brigade_precompile(${BRIGADE_TORCH_TEST_PCH} HEADERS ${BRIGADE_TORCH_HEADERS} ${BRIGADE_TEST_HEADERS}
                         LIBRARIES brigade_torch GTest::gtest GTest::gmock OPTIONS ${BRIGADE_FAST_COMPILE_OPTIONS})
    endif()
  endif()
endif()

# brigade_use_plain_pch(<target>): for libraries without torch.
function(brigade_use_plain_pch target)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM brigade_plain_pch)
endfunction()

# brigade_use_torch_pch(<target>): for libraries and programs with torch.
function(brigade_use_torch_pch target)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM brigade_torch_pch)
  brigade_compile_together(${target})
endfunction()

# brigade_use_test_pch(<target> [TORCH]): for a program that runs in tests alone.
function(brigade_use_test_pch target)
  cmake_parse_arguments(ARG "TORCH" "" "" ${ARGN})
  set(header ${BRIGADE_PLAIN_TEST_PCH})
  if(ARG_TORCH)
    set(header ${BRIGADE_TORCH_TEST_PCH})
  endif()
  target_compile_options(${target} PRIVATE ${BRIGADE_FAST_COMPILE_OPTIONS})
  if(header)
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
  brigade_compile_together(${target})
endfunction()

# brigade_use_example_pch(<target>): for a program of one file that includes the umbrella header.
function(brigade_use_example_pch target)
  target_compile_options(${target} PRIVATE ${BRIGADE_FAST_COMPILE_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM ${BRIGADE_UMBRELLA_PCH})
endfunction()

# Finds a libtorch of the version that Brigade was built with, and makes the target brigade::torch of it.
#
# Searched in this order:
#   BRIGADE_TORCH_DIR   (variable of CMake or of the environment) the folder with include/ and lib/. It must fit.
#   CMAKE_PREFIX_PATH   each prefix, and what `python3 -c 'import torch; print(torch.utils.cmake_prefix_path)'` prints
#   Python              the package torch of an active virtual environment, then of the python3 in PATH
#   `brigade setup`     where that command puts it: the user's own, then the machine's
include(${CMAKE_CURRENT_LIST_DIR}/brigade-torch-version.cmake)

# Each of these adds its folders to `candidates` of the caller.
function(_brigade_torch_of_prefixes)
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    list(APPEND candidates ${prefix} ${prefix}/torch)
    cmake_path(APPEND prefix "../.." OUTPUT_VARIABLE wheel)  # torch/share/cmake, as torch.utils.cmake_prefix_path is
    cmake_path(NORMAL_PATH wheel)
    list(APPEND candidates ${wheel})
  endforeach()
  set(candidates ${candidates} PARENT_SCOPE)
endfunction()

function(_brigade_torch_of_python)
  foreach(python IN ITEMS "$ENV{VIRTUAL_ENV}/bin/python3" python3)
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0)
      list(APPEND candidates ${folder})
    endif()
  endforeach()
  set(candidates ${candidates} PARENT_SCOPE)
endfunction()

function(_brigade_torch_of_setup)
  if(NOT "$ENV{XDG_DATA_HOME}" STREQUAL "")
    list(APPEND candidates $ENV{XDG_DATA_HOME}/brigade/site/torch)
  elseif(NOT "$ENV{HOME}" STREQUAL "")
    list(APPEND candidates $ENV{HOME}/.local/share/brigade/site/torch)
  endif()
  list(APPEND candidates /opt/brigade/site/torch)
  set(candidates ${candidates} PARENT_SCOPE)
endfunction()

# brigade_find_torch(<version> <folder variable> <problem variable>): the folder, or what is wrong.
function(brigade_find_torch version folder_variable problem_variable)
  string(REGEX REPLACE "\\.[0-9]+$" "" series ${version})  # libraries of one series, such as 2.11, can replace each other
  set(candidates "")
  if(NOT "${BRIGADE_TORCH_DIR}" STREQUAL "")
    set(candidates ${BRIGADE_TORCH_DIR})
  elseif(NOT "$ENV{BRIGADE_TORCH_DIR}" STREQUAL "")
    set(candidates $ENV{BRIGADE_TORCH_DIR})
  else()
    _brigade_torch_of_prefixes()
    _brigade_torch_of_python()
    _brigade_torch_of_setup()
    list(REMOVE_DUPLICATES candidates)
  endif()
  set(others "")
  foreach(candidate IN LISTS candidates)
    brigade_read_torch_version(${candidate} found)
    if(NOT found OR NOT EXISTS ${candidate}/lib/libtorch_cpu.so)
      continue()
    endif()
    if("${found}." MATCHES "^${series}\\.")
      set(${folder_variable} ${candidate} PARENT_SCOPE)
      return()
    endif()
    string(APPEND others "\n  libtorch ${found} in ${candidate}")
  endforeach()
  if(NOT others)
    list(JOIN candidates "\n  " searched)
    set(others " None was found; searched:\n  ${searched}")
  else()
    set(others " What was found does not fit:${others}")
  endif()
  set(${folder_variable} "" PARENT_SCOPE)
  set(${problem_variable}
      "Brigade needs libtorch ${version}, the version that it was built with.${others}\nRun `brigade setup` to download it, or set \
BRIGADE_TORCH_DIR to the folder of that version which contains include/ and lib/." PARENT_SCOPE)
endfunction()

# brigade_make_torch_target(<folder> <with CUDA>)
function(brigade_make_torch_target folder with_cuda)
  if(TARGET brigade::torch)
    return()
  endif()
  add_library(brigade::torch INTERFACE IMPORTED)
  set(libraries torch_cpu c10)
  if(with_cuda)
    list(PREPEND libraries torch_cuda c10_cuda)
  endif()
  # All of them, used by the program or not: it is the program's run-time path by which libbrigade.so finds them.
  set_property(TARGET brigade::torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES -Wl,--no-as-needed)
  foreach(library IN LISTS libraries)
    add_library(brigade::${library} SHARED IMPORTED)
    set_property(TARGET brigade::${library} PROPERTY IMPORTED_LOCATION ${folder}/lib/lib${library}.so)
    set_property(TARGET brigade::torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES brigade::${library})
  endforeach()
  set_property(TARGET brigade::torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES -Wl,--as-needed)
  set_target_properties(brigade::torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                        "${folder}/include;${folder}/include/torch/csrc/api/include")
  # Of libraries that libtorch's own name; this is for the linker, and not written into programs.
  set(paths "-Wl,-rpath-link,${folder}/lib")
  cmake_path(GET folder PARENT_PATH site)
  file(GLOB companions LIST_DIRECTORIES true ${site}/nvidia/*/lib)
  foreach(companion IN LISTS companions)
    list(APPEND paths "-Wl,-rpath-link,${companion}")
  endforeach()
  set_property(TARGET brigade::torch PROPERTY INTERFACE_LINK_OPTIONS ${paths})
endfunction()

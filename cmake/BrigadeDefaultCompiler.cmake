# The compiler where nothing chooses one (CXX, -DCMAKE_CXX_COMPILER, a preset or a toolchain file): the one that ./dev takes
# (docs/design/build.md), so that `cmake --preset gpu` and `./dev test --gpu` make the same build. Before project().
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT CMAKE_TOOLCHAIN_FILE
   AND CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR AND EXISTS /etc/os-release)
  file(STRINGS /etc/os-release brigade_is_debian_12 REGEX "^VERSION_CODENAME=bookworm$")
  find_program(BRIGADE_CLANG clang++-16 NO_CACHE)
  if(brigade_is_debian_12 AND BRIGADE_CLANG)
    set(CMAKE_CXX_COMPILER ${BRIGADE_CLANG} CACHE FILEPATH "The C++ compiler")
  endif()
endif()

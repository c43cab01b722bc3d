# find_package(brigade) makes one target, brigade::brigade:
#
#   find_package(brigade REQUIRED)
#   target_link_libraries(my_program PRIVATE brigade::brigade)
#
# With BRIGADE_USE_STATIC_LIBS the target is libbrigade.a instead of libbrigade.so; then the development packages of the libraries
# that Brigade uses must be installed. brigade-torch.cmake says which libtorch is used (BRIGADE_TORCH_DIR chooses).
@PACKAGE_INIT@

include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/brigade-torch.cmake)
brigade_find_torch(@BRIGADE_TORCH_VERSION@ _brigade_torch ${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE)
if(NOT _brigade_torch)
  set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
  return()
endif()

set(_brigade_needs "")
if(BRIGADE_USE_STATIC_LIBS)
  set(_brigade_missing "")
  foreach(_brigade_name IN ITEMS @BRIGADE_STATIC_NEEDS@)
    find_library(_brigade_found ${_brigade_name} NO_CACHE)
    if(_brigade_found)
      list(APPEND _brigade_needs ${_brigade_found})
    else()
      list(APPEND _brigade_missing ${_brigade_name})
    endif()
    unset(_brigade_found)
  endforeach()
  if(_brigade_missing)
    set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
    set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE
        "BRIGADE_USE_STATIC_LIBS is set, and libbrigade.a needs these libraries, which are not installed for development: \
${_brigade_missing}. Install them, or use libbrigade.so (BRIGADE_USE_STATIC_LIBS=OFF).")
    return()
  endif()
endif()

brigade_make_torch_target(${_brigade_torch} @BRIGADE_WITH_CUDA@)
if(NOT TARGET brigade::brigade)
  if(BRIGADE_USE_STATIC_LIBS)
    add_library(brigade::brigade STATIC IMPORTED)
    set_target_properties(brigade::brigade PROPERTIES
      IMPORTED_LOCATION "@PACKAGE_CMAKE_INSTALL_LIBDIR@/libbrigade.a" IMPORTED_LINK_INTERFACE_LANGUAGES CXX)
  else()
    add_library(brigade::brigade SHARED IMPORTED)
    set_target_properties(brigade::brigade PROPERTIES
      IMPORTED_LOCATION "@PACKAGE_CMAKE_INSTALL_LIBDIR@/libbrigade.so.@PROJECT_VERSION@" IMPORTED_SONAME libbrigade.so.@PROJECT_VERSION@)
  endif()
  set_target_properties(brigade::brigade PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "@PACKAGE_CMAKE_INSTALL_INCLUDEDIR@"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_COMPILE_OPTIONS "$<$<CONFIG:>:-O2>"  # a build without a type: headers of tensors are slow without the optimizer
    INTERFACE_LINK_LIBRARIES "brigade::torch;Threads::Threads;${_brigade_needs};${CMAKE_DL_LIBS}")
endif()
set(brigade_TORCH_DIR ${_brigade_torch})
foreach(_brigade_name IN ITEMS torch needs missing name)
  unset(_brigade_${_brigade_name})
endforeach()

# What `cmake --install` and CPack put where. Every path in it is relative to the prefix, so that an installation can be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/brigade)
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS brigade_shared brigade_static LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS brigade_tuning_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS brigade_front RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS brigade_command RUNTIME DESTINATION ${BRIGADE_LIBEXEC_DIR})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/install_torch.py DESTINATION ${BRIGADE_LIBEXEC_DIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/new_project DESTINATION ${BRIGADE_DATA_DIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# All headers but those for tests and those that show another library than libtorch.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/brigade DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN testing EXCLUDE
  PATTERN proto EXCLUDE
  PATTERN tuning EXCLUDE
  PATTERN brigade/io/strict_json.h EXCLUDE
  PATTERN brigade/rpc/call_environment.h EXCLUDE
  PATTERN brigade/rpc/call_deadline.h EXCLUDE
  PATTERN brigade/rpc/join_call.h EXCLUDE
  PATTERN brigade/rpc/large_call.h EXCLUDE
  PATTERN brigade/rpc/large_transfer.h EXCLUDE
  PATTERN brigade/rpc/message_errors.h EXCLUDE
  PATTERN brigade/rpc/message_frame.h EXCLUDE)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/package/brigade-config.in.cmake ${PROJECT_BINARY_DIR}/package/brigade-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/brigade-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/brigade-config.cmake ${PROJECT_BINARY_DIR}/package/brigade-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/package/brigade-torch.cmake ${PROJECT_SOURCE_DIR}/cmake/package/brigade-torch-version.cmake
        DESTINATION ${package_dir})

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pc_dir} OUTPUT_VARIABLE BRIGADE_PREFIX_FROM_PC)
list(TRANSFORM BRIGADE_STATIC_NEEDS PREPEND -l OUTPUT_VARIABLE BRIGADE_PC_STATIC_NEEDS)
list(JOIN BRIGADE_PC_STATIC_NEEDS " " BRIGADE_PC_STATIC_NEEDS)
set(BRIGADE_PC_TORCH_LIBS "-ltorch_cpu -lc10")
if(BRIGADE_WITH_CUDA)
  string(PREPEND BRIGADE_PC_TORCH_LIBS "-ltorch_cuda -lc10_cuda ")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/brigade.pc.in ${PROJECT_BINARY_DIR}/package/brigade.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/brigade.pc DESTINATION ${pc_dir})

# The Debian package: `cpack` in the build folder. What the libraries need is found out by dpkg-shlibdeps; libtorch is no package of
# Debian's, and `brigade setup` fetches it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME brigade)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_CONTACT "The authors of Brigade")
set(CPACK_PACKAGE_FILE_NAME brigade)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${BRIGADE_TORCH_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3")
# To build programs and to fetch libtorch; apt installs them unless it is told not to.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cmake (>= 3.22), g++ | c++-compiler, make | ninja-build, python3-pip")
include(CPack)

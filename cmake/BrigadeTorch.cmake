# libtorch as imported targets of our own: the wheel's find_package(Torch) wants a CUDA toolkit and adds flags.
# BRIGADE_TORCH_DIR is the folder `torch` of an unpacked wheel (`./dev` unpacks one into .deps/site/torch).
set(BRIGADE_TORCH_DIR ${PROJECT_SOURCE_DIR}/.deps/site/torch CACHE PATH "The folder torch of an unpacked libtorch wheel")
if(NOT EXISTS ${BRIGADE_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No libtorch at ${BRIGADE_TORCH_DIR}. Run ./dev setup, or set BRIGADE_TORCH_DIR.")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/package/brigade-torch-version.cmake)
brigade_read_torch_version(${BRIGADE_TORCH_DIR} BRIGADE_TORCH_VERSION)

# Imported by full path, so that CMake knows the run-time path of programs in the build folder, and removes it at installation.
set(libraries torch_cpu c10)
if(BRIGADE_WITH_CUDA)
  list(PREPEND libraries torch_cuda c10_cuda)
endif()
add_library(brigade_torch INTERFACE)
if(BRIGADE_WITH_CUDA)
  target_link_libraries(brigade_torch INTERFACE -Wl,--no-as-needed)
endif()
foreach(library IN LISTS libraries)
  add_library(brigade_torch_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(brigade_torch_${library} PROPERTIES IMPORTED_LOCATION ${BRIGADE_TORCH_DIR}/lib/lib${library}.so)
  target_link_libraries(brigade_torch INTERFACE brigade_torch_${library})
endforeach()
if(BRIGADE_WITH_CUDA)
  target_link_libraries(brigade_torch INTERFACE -Wl,--as-needed)
endif()
target_include_directories(brigade_torch SYSTEM INTERFACE
  ${BRIGADE_TORCH_DIR}/include ${BRIGADE_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_options(brigade_torch INTERFACE $<${own}:-fmacro-prefix-map=${BRIGADE_TORCH_DIR}/=torch/>)
target_link_options(brigade_torch INTERFACE
  -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/lib -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/../nvidia/cu13/lib)
if(BRIGADE_WITH_CUDA)
  include(BrigadeCuda)
  foreach(part IN ITEMS cudnn cusparselt nccl nvshmem)  # libtorch_cuda needs them
    target_link_options(brigade_torch INTERFACE -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/../nvidia/${part}/lib)
  endforeach()
endif()

# libtorch as an imported target of our own: the wheel's find_package(Torch) wants a CUDA toolkit and adds flags.
# BRIGADE_TORCH_DIR is the folder `torch` of an unpacked wheel (`./dev` unpacks one into .deps/site/torch).
set(BRIGADE_TORCH_DIR ${PROJECT_SOURCE_DIR}/.deps/site/torch CACHE PATH "The folder torch of an unpacked libtorch wheel")
if(NOT EXISTS ${BRIGADE_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No libtorch at ${BRIGADE_TORCH_DIR}. Run ./dev setup, or set BRIGADE_TORCH_DIR.")
endif()

add_library(brigade_torch INTERFACE)
target_include_directories(brigade_torch SYSTEM INTERFACE
  ${BRIGADE_TORCH_DIR}/include ${BRIGADE_TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(brigade_torch INTERFACE ${BRIGADE_TORCH_DIR}/lib)
target_link_options(brigade_torch INTERFACE
  -Wl,-rpath,${BRIGADE_TORCH_DIR}/lib -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/lib
  -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/../nvidia/cu13/lib)
if(BRIGADE_WITH_CUDA)
  include(BrigadeCuda)
  foreach(part IN ITEMS cudnn cusparselt nccl nvshmem)  # libtorch_cuda needs them
    target_link_options(brigade_torch INTERFACE -Wl,-rpath-link,${BRIGADE_TORCH_DIR}/../nvidia/${part}/lib)
  endforeach()
  target_link_libraries(brigade_torch INTERFACE -Wl,--no-as-needed torch_cuda c10_cuda torch_cpu c10 -Wl,--as-needed)
else()
  target_link_libraries(brigade_torch INTERFACE torch_cpu c10)
endif()

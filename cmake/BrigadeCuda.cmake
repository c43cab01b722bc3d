# What BRIGADE_WITH_CUDA needs beside torch's CPU libraries, as the target brigade_cuda. Where torch's folder is one of
# PyPI's wheels (tools/install_torch.py --cuda), all of it lies beside torch; a CUDA toolkit has all but torch's own libraries.
# A part that is missing is an error that names it: what one asked for is never left out.
set(BRIGADE_CUDA_WHEELS ${BRIGADE_TORCH_DIR}/../nvidia)
set(BRIGADE_CUDA_TOOLKIT /usr/local/cuda CACHE PATH "A CUDA toolkit, for what does not lie beside torch")

function(brigade_missing_cuda_part what)
  message(FATAL_ERROR "BRIGADE_WITH_CUDA needs ${what}, which is neither beside ${BRIGADE_TORCH_DIR} nor in "
                      "${BRIGADE_CUDA_TOOLKIT}. `tools/install_torch.py --cuda .deps` unpacks all that is needed into "
                      ".deps/site-cuda; then set BRIGADE_TORCH_DIR to .deps/site-cuda/torch, as the preset gpu does.")
endfunction()

# brigade_find_cuda_header(<header>): adds the folder that it is in to BRIGADE_CUDA_INCLUDES.
macro(brigade_find_cuda_header header)
  unset(folder)
  find_path(folder ${header} NO_CACHE NO_DEFAULT_PATH
            PATHS ${BRIGADE_CUDA_WHEELS}/cu13/include ${BRIGADE_CUDA_WHEELS}/nccl/include ${BRIGADE_CUDA_TOOLKIT}/include)
  if(NOT folder)
    brigade_missing_cuda_part("the header ${header}")
  endif()
  list(APPEND BRIGADE_CUDA_INCLUDES ${folder})
endmacro()

# brigade_find_cuda_library(<name> <file>...): appends the first that exists to BRIGADE_CUDA_LIBRARIES.
macro(brigade_find_cuda_library name)
  unset(library)
  find_file(library NAMES ${ARGN} NO_CACHE NO_DEFAULT_PATH
            PATHS ${BRIGADE_CUDA_WHEELS}/cu13/lib ${BRIGADE_CUDA_WHEELS}/nccl/lib ${BRIGADE_CUDA_TOOLKIT}/lib64
                  ${BRIGADE_CUDA_TOOLKIT}/lib)
  if(NOT library)
    brigade_missing_cuda_part("the library ${name}")
  endif()
  list(APPEND BRIGADE_CUDA_LIBRARIES ${library})
endmacro()

foreach(library IN ITEMS torch_cuda c10_cuda)
  if(NOT EXISTS ${BRIGADE_TORCH_DIR}/lib/lib${library}.so)
    message(FATAL_ERROR "BRIGADE_WITH_CUDA needs ${BRIGADE_TORCH_DIR}/lib/lib${library}.so, and that torch has none: it is "
                        "one for CPUs. `tools/install_torch.py --cuda .deps` unpacks one for GPUs into .deps/site-cuda; "
                        "set BRIGADE_TORCH_DIR to .deps/site-cuda/torch, as the preset gpu does.")
  endif()
endforeach()
set(BRIGADE_CUDA_INCLUDES "")
set(BRIGADE_CUDA_LIBRARIES "")
# crt/ is a wheel of its own that CUDA's headers include; the next three are included by torch's.
foreach(header IN ITEMS cuda_runtime_api.h crt/host_defines.h cublas_v2.h cusparse.h cusolverDn.h nccl.h)
  brigade_find_cuda_header(${header})
endforeach()
brigade_find_cuda_library(cudart libcudart.so.13 libcudart.so)
brigade_find_cuda_library(nccl libnccl.so.2 libnccl.so)
list(REMOVE_DUPLICATES BRIGADE_CUDA_INCLUDES)

add_library(brigade_cuda INTERFACE)
target_include_directories(brigade_cuda SYSTEM INTERFACE ${BRIGADE_CUDA_INCLUDES})
target_link_libraries(brigade_cuda INTERFACE ${BRIGADE_CUDA_LIBRARIES})
foreach(library IN LISTS BRIGADE_CUDA_LIBRARIES)
  cmake_path(GET library PARENT_PATH folder)
  target_link_options(brigade_cuda INTERFACE -Wl,-rpath,${folder})
endforeach()

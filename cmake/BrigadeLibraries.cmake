# The libraries that are installed, each all folders in one file, made of the objects that the tests link: libbrigade.so, which
# brings what it needs, and libbrigade.a, whose users link the libraries of the system that BRIGADE_STATIC_NEEDS names.
set(modules "")
set(messages "")
foreach(folder IN LISTS BRIGADE_PLAIN_FOLDERS BRIGADE_TORCH_FOLDERS)
  get_target_property(type brigade_${folder} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND modules brigade_${folder})
  endif()
  if(TARGET brigade_${folder}_proto)
    list(APPEND messages brigade_${folder}_proto)
  endif()
endforeach()

# brigade_all_in_one(<target> SHARED|STATIC <target>...): a library of the objects of these.
function(brigade_all_in_one target linkage)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} ${linkage} ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME brigade LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()
brigade_all_in_one(brigade_static STATIC ${modules} ${messages})
brigade_all_in_one(brigade_shared SHARED ${modules})

# The whole version is part of the name that programs ask for: another version is never loaded in its place.
set_target_properties(brigade_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
target_link_libraries(brigade_shared PRIVATE ${modules})  # for what they need; all of their own objects are there
# Protobuf's classes are not exported: a program may have its own of TensorFlow's messages.
list(TRANSFORM messages REPLACE "(.+)" "lib\\1.a" OUTPUT_VARIABLE archives)
list(JOIN archives ":" archives)
target_link_options(brigade_shared PRIVATE LINKER:--exclude-libs,${archives} LINKER:--as-needed)

set(BRIGADE_STATIC_NEEDS spdlog fmt hwloc png jpeg protobuf)
if(TARGET brigade_rpc_proto)
  list(APPEND BRIGADE_STATIC_NEEDS grpc++ grpc gpr absl_synchronization)
endif()
get_target_property(linked brigade_comm LINK_LIBRARIES)  # MPI's and NCCL's, where they are built in
foreach(library IN LISTS linked)
  if(library MATCHES "/lib([^/]+)\\.so[.0-9]*$")
    list(APPEND BRIGADE_STATIC_NEEDS ${CMAKE_MATCH_1})
  endif()
endforeach()
list(APPEND BRIGADE_STATIC_NEEDS ssl crypto z)

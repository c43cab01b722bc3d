# brigade_protobuf(<target> <file>...)
#
# A static library of the messages in .proto files, which are named, and import each other, by their paths from the top. Generated
# code lies in the build folder: it is not held to our warnings. Link the library privately: headers of ours show no protobuf.
find_package(Protobuf REQUIRED)

function(brigade_protobuf target)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  set(protos "")
  set(outputs "")
  foreach(file IN LISTS ARGN)
    cmake_path(REMOVE_EXTENSION file OUTPUT_VARIABLE stem)
    list(APPEND protos ${PROJECT_SOURCE_DIR}/${file})
    list(APPEND outputs ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h)
  endforeach()
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${protos}
    DEPENDS ${protos}
    COMMENT "Generating the messages of ${target}")
  add_library(${target} STATIC ${outputs})
  set_source_files_properties(${outputs} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # all have the same static names
  brigade_compile_fast(${target})  # the work is done in libprotobuf
  target_include_directories(${target} SYSTEM PUBLIC ${generated})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()

# Whether gRPC for C++ and its protoc plugin are installed: BRIGADE_HAS_GRPC. (Debian's CMake package of gRPC looks for half a
# dozen others; four libraries are all we need, of which Abseil's is called by inline functions of gRPC's headers.)
find_path(BRIGADE_GRPC_INCLUDE grpcpp/grpcpp.h)
find_library(BRIGADE_GRPCPP_LIBRARY grpc++)
find_library(BRIGADE_GRPC_LIBRARY grpc)
find_library(BRIGADE_GPR_LIBRARY gpr)
find_library(BRIGADE_ABSL_LIBRARY absl_synchronization)
find_program(BRIGADE_GRPC_PLUGIN grpc_cpp_plugin)
if(BRIGADE_GRPC_INCLUDE AND BRIGADE_GRPCPP_LIBRARY AND BRIGADE_GRPC_LIBRARY AND BRIGADE_GPR_LIBRARY AND BRIGADE_ABSL_LIBRARY
   AND BRIGADE_GRPC_PLUGIN)
  set(BRIGADE_HAS_GRPC TRUE)
else()
  set(BRIGADE_HAS_GRPC FALSE)
endif()

# brigade_grpc(<target> <file>...): brigade_protobuf() with the services in the files, too. Only where BRIGADE_HAS_GRPC.
function(brigade_grpc target)
  brigade_protobuf(${target} ${ARGN})
  set(generated ${PROJECT_BINARY_DIR}/generated)
  foreach(file IN LISTS ARGN)
    cmake_path(REMOVE_EXTENSION file OUTPUT_VARIABLE stem)
    set(outputs ${generated}/${stem}.grpc.pb.cc ${generated}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --grpc_out=${generated}
              --plugin=protoc-gen-grpc=${BRIGADE_GRPC_PLUGIN} ${PROJECT_SOURCE_DIR}/${file}
      DEPENDS ${PROJECT_SOURCE_DIR}/${file} ${generated}/${stem}.pb.h
      COMMENT "Generating the services of ${target}")
    target_sources(${target} PRIVATE ${outputs})
  endforeach()
  brigade_compile_together(${target})
  target_link_libraries(${target} PUBLIC ${BRIGADE_GRPCPP_LIBRARY} ${BRIGADE_GRPC_LIBRARY} ${BRIGADE_GPR_LIBRARY}
                        ${BRIGADE_ABSL_LIBRARY})
endfunction()

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
  target_include_directories(${target} SYSTEM PUBLIC ${generated})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()

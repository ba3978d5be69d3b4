# Protobuf 3.12 and later, and gpuactors_add_proto_sources().

# Protobuf from release 22 on needs Abseil, which only its own package config knows; the distributions' older ones
# have no package config.
find_package(protobuf CONFIG QUIET)
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf 3.12 MODULE REQUIRED)
endif()

# gpuactors_add_proto_sources(<target> ROOT <dir> PROTOS <file>... [IMPORTS <dir>...])
#
# Adds the C++ classes of .proto files to `target`. PROTOS are relative to ROOT, the folder that their import paths
# start from: gpuactors/v1/control.proto becomes <gpuactors/v1/control.pb.h>. IMPORTS are further such folders. The
# generated code lies in the build tree, in the folder that the target's property GPUACTORS_PROTO_DIR names.
function(gpuactors_add_proto_sources target)
  cmake_parse_arguments(ARG "" "ROOT" "PROTOS;IMPORTS" ${ARGN})
  if(NOT ARG_ROOT OR NOT ARG_PROTOS)
    message(FATAL_ERROR "gpuactors_add_proto_sources(${target}): ROOT and PROTOS are needed")
  endif()
  get_filename_component(root "${ARG_ROOT}" ABSOLUTE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/proto/${target})
  # Generated code is not ours to make free of findings (one check must remain: clang-tidy refuses to run none).
  file(WRITE ${out}/.clang-tidy "Checks: '-*,llvm-twine-local'\n")
  set(includes -I${root})
  foreach(dir IN LISTS ARG_IMPORTS)
    get_filename_component(dir "${dir}" ABSOLUTE)
    list(APPEND includes -I${dir})
  endforeach()
  set(sources)
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" ".pb" stem "${out}/${proto}")
    add_custom_command(
      OUTPUT ${stem}.cc ${stem}.h
      COMMAND protobuf::protoc --cpp_out=${out} ${includes} ${root}/${proto}
      DEPENDS ${root}/${proto} protobuf::protoc
      COMMENT "Generating ${proto}"
      VERBATIM)
    list(APPEND sources ${stem}.cc)
  endforeach()
  target_sources(${target} PRIVATE ${sources})
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${out}>)
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  set_target_properties(${target} PROPERTIES GPUACTORS_PROTO_DIR ${out})
endfunction()

# gpuactors_add_plugin(<target> <source>... [ROOT <dir>] [PROTOS <file>...] [IMPORTS <dir>...])
#
# A plugin: a shared library <target>.so with tasks and actors, which nodes are told of by --plugin. The sources
# register them with GPUACTORS_TASK and GPUACTORS_ACTOR; PROTOS, ROOT (the current folder when left out) and IMPORTS are
# those of gpuactors_add_proto_sources(). More is linked with target_link_libraries() as usual.
#
# The import path of a .proto file, and the names of its messages, must be those of no other plugin and not the
# program's: two plugins that share messages link one shared library that has them.
function(gpuactors_add_plugin target)
  cmake_parse_arguments(ARG "" "ROOT" "PROTOS;IMPORTS" ${ARGN})
  add_library(${target} MODULE ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${target} PROPERTIES PREFIX "")
  target_link_libraries(${target} PRIVATE gpuactors::gpuactors)
  if(ARG_PROTOS)
    if(NOT ARG_ROOT)
      set(ARG_ROOT .)
    endif()
    gpuactors_add_proto_sources(${target} ROOT ${ARG_ROOT} PROTOS ${ARG_PROTOS} IMPORTS ${ARG_IMPORTS})
  endif()
  # What a plugin lacks is an error here, not on a node. (Sanitizers leave their own symbols to the program.)
  get_directory_property(options LINK_OPTIONS)
  if(NOT "${options} ${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()

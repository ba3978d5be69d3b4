# gpuactors_add_layer(<name> SOURCES ... [LINK ...] [PROTOS ...] [FOLDER <layer>])
#
# One layer of libgpuactors as an object library `gpuactors_<name>`. LINK names the layers below and the packages it
# uses; include paths and definitions follow from there, so that a layer that includes what it may not use does not
# find it. The shared library is made of all layers; tests of one layer link its objects alone, together with those of
# the layers below. PROTOS are installed with the headers made from them; their import paths start at the layer's
# folder. FOLDER is for a part of a layer that does with fewer packages than the rest of it.
function(gpuactors_add_layer name)
  cmake_parse_arguments(ARG "" "FOLDER" "SOURCES;LINK;PROTOS" ${ARGN})
  set(target gpuactors_${name})
  set(layer_folder gpuactors/${name})
  if(ARG_FOLDER)
    set(layer_folder gpuactors/${ARG_FOLDER})
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND ${layer_folder}/)
  add_library(${target} OBJECT ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libgpuactors>)
  target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE gpuactors_flags)
  target_link_libraries(gpuactors PRIVATE ${target})
  set_property(GLOBAL APPEND PROPERTY GPUACTORS_LAYERS ${target})
  if(ARG_PROTOS)
    gpuactors_add_proto_sources(${target} ROOT ${layer_folder} PROTOS ${ARG_PROTOS})
    get_target_property(generated ${target} GPUACTORS_PROTO_DIR)
    # The programs that use the library include the generated headers too.
    target_include_directories(gpuactors SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>)
    add_dependencies(gpuactors ${target})
    foreach(proto IN LISTS ARG_PROTOS)
      get_filename_component(folder ${proto} DIRECTORY)
      string(REGEX REPLACE "\\.proto$" ".pb.h" header ${proto})
      install(FILES ${layer_folder}/${proto} ${generated}/${header}
              DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT gpuactors)
    endforeach()
  endif()
endfunction()

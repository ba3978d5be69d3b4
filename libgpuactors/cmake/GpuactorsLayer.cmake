# gpuactors_add_layer(<name> SOURCES ... [LINK ...])
#
# One layer of libgpuactors as an object library `gpuactors_<name>`. LINK names the layers below and the packages it
# uses; include paths and definitions follow from there, so that a layer that includes what it may not use does not
# find it. The shared library is made of all layers; tests of one layer link its objects alone.
function(gpuactors_add_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  set(target gpuactors_${name})
  list(TRANSFORM ARG_SOURCES PREPEND gpuactors/${name}/)
  add_library(${target} OBJECT ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libgpuactors>)
  target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE gpuactors_flags)
  set_property(GLOBAL APPEND PROPERTY GPUACTORS_LAYERS ${target})
endfunction()

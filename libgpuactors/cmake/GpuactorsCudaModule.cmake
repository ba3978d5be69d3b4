# libgpuactors_cuda.so: the CUDA device, loaded at run time. Needs the toolkit's headers to build and nothing of CUDA to
# link: the driver and cuBLAS are found by dlopen.
#
# It shares interfaces with libgpuactors, not code: it carries its own copy of the few functions of base and device that
# it calls, and exports one symbol. So it is built and tested without the layers above.

if(GPUACTORS_CUDA STREQUAL "OFF")
  return()
endif()

find_path(GPUACTORS_CUDA_INCLUDE_DIR cudaTypedefs.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda
  PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
mark_as_advanced(GPUACTORS_CUDA_INCLUDE_DIR)
if(NOT GPUACTORS_CUDA_INCLUDE_DIR)
  if(GPUACTORS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUACTORS_CUDA is ON and cudaTypedefs.h was not found: install the CUDA Toolkit 12.5 or later")
  endif()
  message(STATUS "No CUDA Toolkit: devices are host devices only")
  return()
endif()

set(device ${CMAKE_CURRENT_SOURCE_DIR}/gpuactors/device)
set(base ${CMAKE_CURRENT_SOURCE_DIR}/gpuactors/base)
add_library(gpuactors_cuda MODULE
  ${device}/cuda/backend.cpp ${device}/cuda/backend_graphs.cpp ${device}/cuda/backend_memory.cpp
  ${device}/cuda/check.cpp ${device}/cuda/closer.cpp ${device}/cuda/code_cache.cpp ${device}/cuda/compiler.cpp
  ${device}/cuda/cublas.cpp ${device}/cuda/device.cpp ${device}/cuda/driver.cpp ${device}/cuda/events.cpp
  ${device}/cuda/graph.cpp ${device}/cuda/images.cpp ${device}/cuda/module.cpp ${device}/cuda/partition.cpp
  ${device}/cuda/pinned_pool.cpp ${device}/cuda/poller.cpp ${device}/cuda/pool.cpp ${device}/cuda/pool_list.cpp
  ${device}/cuda/primary.cpp ${device}/cuda/products.cpp ${device}/cuda/runtime_kernels.cpp
  ${device}/cuda/shared_memory.cpp ${device}/cuda/split.cpp
  ${device}/backend.cpp ${device}/detail/compute_groups.cpp ${device}/detail/patience.cpp ${device}/device_offer.cpp
  ${device}/quota.cpp ${device}/types.cpp ${base}/error.cpp ${base}/report_exception.cpp
  ${base}/units.cpp ${base}/utf8.cpp)
set_target_properties(gpuactors_cuda PROPERTIES
  OUTPUT_NAME gpuactors_cuda
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/gpuactors_cuda.map)
target_include_directories(gpuactors_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
# Not ours to warn about.
target_include_directories(gpuactors_cuda SYSTEM PRIVATE ${GPUACTORS_CUDA_INCLUDE_DIR})
target_link_libraries(gpuactors_cuda PRIVATE gpuactors_flags fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(gpuactors_cuda PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/gpuactors_cuda.map)
# Programs find the module at run time: without it, one that is built alone would run on host devices.
add_dependencies(gpuactors gpuactors_cuda)
install(TARGETS gpuactors_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpuactors)

# The shared library `gpuactors::gpuactors` and what `cmake --install` puts down. The layers add themselves to it.

# Sources, and the plugins made with them, read the version there.
set(version_header ${PROJECT_SOURCE_DIR}/libgpuactors/gpuactors/base/version.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${version_header})
file(READ ${version_header} text)
if(NOT text MATCHES "MAJOR ${PROJECT_VERSION_MAJOR}\n" OR NOT text MATCHES "MINOR ${PROJECT_VERSION_MINOR}\n")
  message(FATAL_ERROR "${version_header} does not say ${PROJECT_VERSION}, the version of the project")
endif()

add_library(gpuactors SHARED)
add_library(gpuactors::gpuactors ALIAS gpuactors)
set_target_properties(gpuactors PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}) # below 1.0 every minor version may break the ABI
target_compile_features(gpuactors PUBLIC cxx_std_20)
target_include_directories(gpuactors PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libgpuactors>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# What the public headers include; the rest of what the layers use stays inside.
target_link_libraries(gpuactors PUBLIC CAF::core CAF::io fmt::fmt protobuf::libprotobuf Threads::Threads)
if(NOT GPUACTORS_SANITIZE)
  target_link_options(gpuactors PRIVATE LINKER:--no-undefined)
endif()

# -- install -------------------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuactors)
install(TARGETS gpuactors EXPORT gpuactorsTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpuactors)
install(EXPORT gpuactorsTargets NAMESPACE gpuactors:: DESTINATION ${package_dir} COMPONENT gpuactors)

# A header that lies directly in a layer's folder is public; one in a folder below it is the layer's own business. The
# control actors are nobody's but the library's (tests/lint/layers.txt: inner).
foreach(root ${PROJECT_SOURCE_DIR}/libgpuactors ${PROJECT_SOURCE_DIR}/kernels)
  file(GLOB headers RELATIVE ${root} CONFIGURE_DEPENDS ${root}/gpuactors/*.hpp ${root}/gpuactors/*/*.hpp)
  list(FILTER headers EXCLUDE REGEX "^gpuactors/(broker|agent)/")
  if(root MATCHES "/libgpuactors$")
    list(APPEND headers gpuactors/agent/log_line.hpp)
  endif()
  set_property(GLOBAL APPEND PROPERTY GPUACTORS_PUBLIC_HEADERS ${headers})
  foreach(header IN LISTS headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${root}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT gpuactors)
  endforeach()
endforeach()

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/gpuactorsConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/gpuactorsConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/gpuactorsConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
# The modules that a user's project needs: to find CAF, to compile .proto files, to build .cu files for both devices, to
# make plugins.
file(GLOB modules CONFIGURE_DEPENDS cmake/FindCAF.cmake cmake/GpuactorsProtobuf.cmake cmake/GpuactorsKernels*
     cmake/GpuactorsPlugin.cmake)
install(FILES ${modules} ${CMAKE_CURRENT_BINARY_DIR}/gpuactorsConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/gpuactorsConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT gpuactors)

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
# Calls within the library are bound when it is linked, and not again in each process that starts: a third of the
# symbols that were looked up there. So who links the library must not link objects of its layers beside it, whose
# functions would then be there twice, with the static variables in them.
target_link_options(gpuactors PRIVATE LINKER:-Bsymbolic-functions)
if(NOT GPUACTORS_SANITIZE)
  target_link_options(gpuactors PRIVATE LINKER:--no-undefined)
endif()

# -- install -------------------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuactors)
install(TARGETS gpuactors EXPORT gpuactorsTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gpuactors)
install(EXPORT gpuactorsTargets NAMESPACE gpuactors:: DESTINATION ${package_dir} COMPONENT gpuactors)

# What public_headers.txt names, and whatever of ours that includes.
set(header_roots ${PROJECT_SOURCE_DIR}/libgpuactors ${PROJECT_SOURCE_DIR}/kernels)
set(header_list ${PROJECT_SOURCE_DIR}/libgpuactors/public_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header_list})
file(STRINGS ${header_list} entries REGEX "^gpuactors/")
set(left)
foreach(entry IN LISTS entries)
  set(found)
  foreach(root IN LISTS header_roots)
    file(GLOB here RELATIVE ${root} CONFIGURE_DEPENDS ${root}/${entry})
    list(APPEND found ${here})
  endforeach()
  if(NOT found)
    message(FATAL_ERROR "public_headers.txt: there is no header ${entry}")
  endif()
  list(APPEND left ${found})
endforeach()
set(public_headers)
while(left)
  list(POP_FRONT left header)
  if(header IN_LIST public_headers)
    continue()
  endif()
  foreach(root IN LISTS header_roots)
    if(EXISTS ${root}/${header})
      list(APPEND public_headers ${header})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/${header})
      file(STRINGS ${root}/${header} includes REGEX "^ *# *include <gpuactors/.*\\.hpp>")
      list(TRANSFORM includes REPLACE "^ *# *include <(.*)>.*" "\\1")
      list(APPEND left ${includes})
      get_filename_component(folder ${header} DIRECTORY)
      install(FILES ${root}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT gpuactors)
    endif()
  endforeach()
endwhile()
set_property(GLOBAL PROPERTY GPUACTORS_PUBLIC_HEADERS ${public_headers})

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

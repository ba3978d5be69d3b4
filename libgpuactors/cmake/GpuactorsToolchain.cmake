# What every target of this project is compiled with.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

include(GNUInstallDirs)
# An installed program finds the library beside it, wherever the tree is moved.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
# ... and finds a CAF that lies outside the system's folders.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# In the build tree too, where every program and library then has a search path that a bundle can make its own.
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")

find_program(GPUACTORS_CCACHE ccache)
if(GPUACTORS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GPUACTORS_CCACHE})
endif()

# Flags of our own targets only: what users compile is theirs.
add_library(gpuactors_flags INTERFACE)
target_compile_options(gpuactors_flags INTERFACE -Wall -Wextra -Wconversion -Wnon-virtual-dtor
                       $<$<BOOL:${GPUACTORS_WERROR}>:-Werror>)
if(CMAKE_UNITY_BUILD) # where a source that is included looks like a header with an anonymous namespace
  target_compile_options(gpuactors_flags INTERFACE -Wno-subobject-linkage)
endif()
if(GPUACTORS_SANITIZE)
  add_compile_options(-fsanitize=${GPUACTORS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GPUACTORS_SANITIZE})
endif()

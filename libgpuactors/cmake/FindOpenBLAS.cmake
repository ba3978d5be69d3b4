# Finds OpenBLAS with its C interface (cblas.h) as OpenBLAS::OpenBLAS. Ours calls openblas_set_num_threads, so no other
# BLAS will do.

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PC_OPENBLAS QUIET openblas)
endif()

# Debian keeps each build of OpenBLAS in a folder of its own, under the name of its threading.
find_path(OpenBLAS_INCLUDE_DIR cblas.h
  HINTS ${PC_OPENBLAS_INCLUDE_DIRS}
  PATH_SUFFIXES openblas openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
find_library(OpenBLAS_LIBRARY openblas
  HINTS ${PC_OPENBLAS_LIBRARY_DIRS}
  PATH_SUFFIXES openblas openblas-pthread)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libopenblas-dev")

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

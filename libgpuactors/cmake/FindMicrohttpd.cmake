# Finds GNU libmicrohttpd as Microhttpd::Microhttpd.

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PC_MICROHTTPD QUIET libmicrohttpd)
endif()

find_path(Microhttpd_INCLUDE_DIR microhttpd.h HINTS ${PC_MICROHTTPD_INCLUDE_DIRS})
find_library(Microhttpd_LIBRARY microhttpd HINTS ${PC_MICROHTTPD_LIBRARY_DIRS})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Microhttpd
  REQUIRED_VARS Microhttpd_LIBRARY Microhttpd_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libmicrohttpd-dev")

if(Microhttpd_FOUND AND NOT TARGET Microhttpd::Microhttpd)
  add_library(Microhttpd::Microhttpd UNKNOWN IMPORTED)
  set_target_properties(Microhttpd::Microhttpd PROPERTIES
    IMPORTED_LOCATION ${Microhttpd_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${Microhttpd_INCLUDE_DIR})
endif()
mark_as_advanced(Microhttpd_INCLUDE_DIR Microhttpd_LIBRARY)

# FindCAF: the C++ Actor Framework, as Debian packages it (0.17.6, no CMake config) or as it installs itself (1.x).
#
# Set CAF_ROOT to the prefix of an installation to use that one and no other. Defines CAF::core, CAF::io, CAF::openssl
# and CAF_VERSION, the same for both.
#
# Call it without a version: CMake would pass that on to CAF's package config, which takes only its own major version.
#
# CAF 1.1.0 defines the macro CAF_VERSION as 0100, an octal number: its version is therefore taken from its package
# config here, and from CAF_MAJOR_VERSION and CAF_MINOR_VERSION in sources.

find_package(Threads REQUIRED)
find_package(OpenSSL QUIET) # CAF::openssl names its targets but does not look for them.

set(_caf_reason "install libcaf-dev or set CAF_ROOT to the prefix of an installed CAF")
# Without CAF_ROOT a CAF under /usr/local or /opt must not win by chance over the packaged one.
set(_caf_config NO_CMAKE_SYSTEM_PATH)
set(_caf_only)
if(NOT CAF_ROOT AND DEFINED ENV{CAF_ROOT})
  set(CAF_ROOT "$ENV{CAF_ROOT}")
endif()
if(CAF_ROOT)
  set(_caf_only PATHS "${CAF_ROOT}" NO_DEFAULT_PATH)
  set(_caf_config ${_caf_only})
  string(APPEND _caf_reason " (CAF_ROOT is ${CAF_ROOT})")
endif()

find_package(CAF CONFIG QUIET ${_caf_config})
if(TARGET CAF::core)
  get_target_property(CAF_INCLUDE_DIR CAF::core INTERFACE_INCLUDE_DIRECTORIES)
  set(_caf_required CAF_INCLUDE_DIR CAF_VERSION)
else()
  find_path(CAF_INCLUDE_DIR caf/all.hpp ${_caf_only} PATH_SUFFIXES include)
  set(_caf_required CAF_INCLUDE_DIR CAF_VERSION)
  foreach(part core io openssl)
    find_library(CAF_${part}_LIBRARY caf_${part} ${_caf_only} PATH_SUFFIXES lib lib64)
    list(APPEND _caf_required CAF_${part}_LIBRARY)
    mark_as_advanced(CAF_${part}_LIBRARY)
  endforeach()
  set(CAF_VERSION)
  if(CAF_INCLUDE_DIR)
    # One number here, for example 1706 for 0.17.6.
    file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _caf_line REGEX "^#define CAF_VERSION [0-9]+" LIMIT_COUNT 1)
    if(_caf_line MATCHES "CAF_VERSION ([0-9]+)")
      math(EXPR _caf_major "${CMAKE_MATCH_1} / 10000")
      math(EXPR _caf_minor "${CMAKE_MATCH_1} / 100 % 100")
      math(EXPR _caf_patch "${CMAKE_MATCH_1} % 100")
      set(CAF_VERSION ${_caf_major}.${_caf_minor}.${_caf_patch})
    endif()
  endif()
  mark_as_advanced(CAF_INCLUDE_DIR)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS ${_caf_required} VERSION_VAR CAF_VERSION
                                  REASON_FAILURE_MESSAGE "${_caf_reason}")

if(CAF_FOUND AND NOT TARGET CAF::core)
  foreach(part core io openssl)
    add_library(CAF::${part} UNKNOWN IMPORTED)
    set_target_properties(CAF::${part} PROPERTIES
      IMPORTED_LOCATION "${CAF_${part}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
  endforeach()
  target_link_libraries(CAF::core INTERFACE Threads::Threads)
  target_link_libraries(CAF::io INTERFACE CAF::core)
  target_link_libraries(CAF::openssl INTERFACE CAF::io)
  if(TARGET OpenSSL::SSL)
    target_link_libraries(CAF::openssl INTERFACE OpenSSL::SSL OpenSSL::Crypto)
  endif()
endif()

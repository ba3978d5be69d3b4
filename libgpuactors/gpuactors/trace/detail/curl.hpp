// The functions of libcurl that are used, looked up when they are needed: programs that send no spans start without
// it. Only the types come from its header.
#pragma once

#include <gpuactors/base/result.hpp>

#include <curl/curl.h>

namespace gpuactors::detail {

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

/// Loads libcurl.so.4, or its build with GnuTLS, and starts it. It is never unloaded.
/// @returns `unsupported` if there is none.
Result<Curl> load_curl();

} // namespace gpuactors::detail

#include <gpuactors/trace/detail/curl.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

namespace gpuactors::detail {

namespace {

/// Looks a function up. @returns whether it is there.
template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

} // namespace

Result<Curl> load_curl() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    if (library == nullptr)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Errc::unsupported, "libcurl.so.4 was not found: install libcurl4 (on Debian 13 libcurl4t64)");
  Curl curl;
  const bool whole =
      find(library, "curl_global_init", curl.global_init) && find(library, "curl_easy_init", curl.easy_init)
      && find(library, "curl_easy_cleanup", curl.easy_cleanup) && find(library, "curl_easy_setopt", curl.easy_setopt)
      && find(library, "curl_easy_perform", curl.easy_perform) && find(library, "curl_easy_getinfo", curl.easy_getinfo)
      && find(library, "curl_easy_strerror", curl.easy_strerror)
      && find(library, "curl_slist_append", curl.slist_append)
      && find(library, "curl_slist_free_all", curl.slist_free_all);
  if (!whole)
    return fail(Errc::unsupported, "libcurl lacks functions that it has had for decades");
  if (const auto code = curl.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
    return fail(Errc::unsupported, fmt::format("libcurl does not start: {}", curl.easy_strerror(code)));
  return curl;
}

} // namespace gpuactors::detail

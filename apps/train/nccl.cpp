#include "nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// The first with communicators that nobody has to wait for.
constexpr int oldest = 21400;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

} // namespace

Result<Nccl> Nccl::open() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return gpuactors::fail(Errc::unsupported, fmt::format("NCCL is not here: {}", dlerror()));
  Nccl nccl;
  if (!find(library, "ncclGetVersion", nccl.get_version) || nccl.get_version(&nccl.version) != success
      || nccl.version < oldest)
    return gpuactors::fail(Errc::unsupported, fmt::format("NCCL is too old: {}, and 2.14 is needed", nccl.version));
  if (!find(library, "ncclGetUniqueId", nccl.get_unique_id)
      || !find(library, "ncclCommInitRankConfig", nccl.comm_init_rank_config)
      || !find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error)
      || !find(library, "ncclCommAbort", nccl.comm_abort) || !find(library, "ncclAllReduce", nccl.all_reduce)
      || !find(library, "ncclGetErrorString", nccl.get_error_string))
    return gpuactors::fail(Errc::unsupported, fmt::format("NCCL lacks a function: {}", dlerror()));
  return nccl;
}

Result<const Nccl*> Nccl::load() {
  static const auto opened = open();
  if (!opened)
    return gpuactors::fail(opened.error());
  return &*opened;
}

gpuactors::Error Nccl::error(const char* function, int code) const {
  return {Errc::unavailable, fmt::format("{}: {} ({})", function, get_error_string(code), code)};
}

int nccl_version() {
  const auto nccl = Nccl::load();
  return nccl ? (*nccl)->version : 0;
}

Result<std::string> make_nccl_id() {
  GPUACTORS_LET(nccl, Nccl::load());
  Nccl::Id id;
  if (const auto code = nccl->get_unique_id(&id); code != Nccl::success)
    return gpuactors::fail(nccl->error("ncclGetUniqueId", code));
  return std::string{id.bytes.data(), id.bytes.size()};
}

} // namespace train

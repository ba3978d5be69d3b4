// await_unless(): waits for an answer of the cluster, but not longer than the server goes on.
#pragma once

#include <gpuactors/base/future.hpp>

#include <chrono>

namespace serve {

/// Waits for an answer. A broker that is away does not answer, nor does a replica that is stuck: the end must not wait
/// for them.
/// @returns also `unavailable` once `stopped()` is true, which is asked again and again.
template <class T, class Stopped>
gpuactors::Result<T> await_unless(const Stopped& stopped, gpuactors::Future<T> coming) {
  constexpr auto step = std::chrono::milliseconds{100};
  for (;;) {
    if (coming.wait(step))
      return coming.get();
    if (stopped()) {
      coming.cancel();
      return gpuactors::fail(gpuactors::Errc::unavailable, "the server ends");
    }
  }
}

} // namespace serve

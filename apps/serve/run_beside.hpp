// run_beside(): work on a thread of its own, where nobody could handle that there is none.
#pragma once

#include <system_error>
#include <thread>

namespace serve {

/// Runs `work` on a new thread, which the caller joins; or at once, before it returns, if the machine has no thread
/// left.
template <class Work>
[[nodiscard]] std::thread run_beside(Work work) {
  try {
    return std::thread{work};
  } catch (const std::system_error&) {
    work();
    return {};
  }
}

} // namespace serve

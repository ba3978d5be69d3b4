// Waiting for what other threads do, in tests.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace gpuactors::test {

/// Looks again and again until it holds; false after a minute.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::yield();
  }
  return true;
}

} // namespace gpuactors::test

// Numbers that nobody else has chosen: names for processes, clients and readers.
#pragma once

#include <cstdint>
#include <random>

namespace gpuactors {

/// A random number of 64 bits that is not 0, from the system's source. Any thread; not for secrets.
[[nodiscard]] inline std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U | random()) | 1U;
}

} // namespace gpuactors

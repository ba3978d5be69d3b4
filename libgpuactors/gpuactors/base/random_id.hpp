// Random numbers that are unique in practice, as ids of processes, clients and readers.
#pragma once

#include <cstdint>
#include <random>

namespace gpuactors {

/// Returns a random non-zero 64-bit number from the system's source. Any thread; not for secrets.
[[nodiscard]] inline std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U | random()) | 1U;
}

} // namespace gpuactors

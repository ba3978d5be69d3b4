// Random numbers that are unique in practice, as ids of processes, clients and readers.
#pragma once

#include <cstdint>
#include <random>

namespace gpuactors {

/// Returns a non-zero number of 63 random bits from the system's source, which nobody can guess. Any thread.
[[nodiscard]] inline std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32U | random()) | 1U;
}

} // namespace gpuactors

// Random numbers that are unique in practice, as ids of processes, clients and readers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <random>

namespace gpuactors {

/// Returns a non-zero number of 63 random bits from the system's source, which nobody can guess. Any thread.
[[nodiscard]] inline std::uint64_t random_id() {
  std::uint64_t number = 0;
  // Each `std::random_device` asks the processor first what it can do, which takes a virtual machine some 10 us.
  if (::getentropy(&number, sizeof(number)) != 0) {
    std::random_device random;
    number = std::uint64_t{random()} << 32U | random();
  }
  return number | 1U;
}

} // namespace gpuactors

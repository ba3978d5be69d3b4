// How much memory the program has taken from the allocator, for tests that nothing is left behind.
#pragma once

#include <malloc.h>

#include <cstddef>

namespace gpuactors::test {

/// Bytes that are allocated now. Always 0 under a sanitizer, whose allocator does not tell.
inline std::size_t allocated_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

} // namespace gpuactors::test

// What only a chip has: tests go on without it on the driver for tests, and nowhere else.
#pragma once

#include <gpuactors/base/error.hpp>

#include <support/catch.hpp>

#include <cstdlib>

namespace gpuactors::test {

/// Returns whether this is the driver for tests, which lacks what `why` says. A chip's tests fail: a row of the
/// verification that has not run would look as if it had.
inline bool lacks(const Error& why) {
  if (std::getenv("FAKE_CUDA_DEVICES") == nullptr)
    FAIL(why.message());
  WARN(why.message());
  return true;
}

} // namespace gpuactors::test

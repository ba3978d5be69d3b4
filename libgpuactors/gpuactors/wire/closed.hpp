// The error of all that is asked of a cluster that was closed.
#pragma once

#include <gpuactors/base/error.hpp>

namespace gpuactors {

[[nodiscard]] inline Error cluster_closed() {
  return Error{Errc::unavailable, "the cluster was closed"};
}

} // namespace gpuactors

// TaskShape: what tasks have in common that can share leases.
#pragma once

#include <gpuactors/v1/control.pb.h>

#include <string>

namespace gpuactors::detail {

/// The resource request of tasks; tasks with an equal `key` share leases.
struct TaskShape {
  v1::ResourceRequest request;
  std::string key;
  /// How many tasks a lease runs before it is given back; 0: no limit.
  int max_calls = 0;
};

} // namespace gpuactors::detail

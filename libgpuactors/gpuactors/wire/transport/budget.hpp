// Budget: how much may wait for those who do not take what they have asked for. Internal to the layer.
#pragma once

#include <gpuactors/base/limits.hpp>

#include <atomic>
#include <cstddef>

namespace gpuactors::transport {

/// Bytes that wait for several peers. Together they may have `all`; beyond that, those for whom more than `one` waits
/// are given up. Any thread.
struct Budget {
  std::size_t one = limits::client_waiting_bytes;
  std::size_t all = limits::clients_waiting_bytes;
  std::atomic<std::size_t> waiting{0};
};

} // namespace gpuactors::transport

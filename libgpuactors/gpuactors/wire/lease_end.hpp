// The report that a lease has ended.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// It ended in order.
[[nodiscard]] inline v1::LeaseEnded lease_end(std::uint64_t lease, std::uint64_t epoch) {
  v1::LeaseEnded ended;
  ended.set_lease(lease);
  ended.set_epoch(epoch);
  return ended;
}

/// It was ended by an error, or could not begin.
[[nodiscard]] inline v1::LeaseEnded lease_end(std::uint64_t lease, std::uint64_t epoch, const Error& error) {
  auto ended = lease_end(lease, epoch);
  ended.set_error(static_cast<std::uint32_t>(error.code()));
  ended.set_text(error.message());
  return ended;
}

} // namespace gpuactors

#include "traffic_split.hpp"

#include <cmath>

namespace serve::batching {

namespace {

constexpr std::uint32_t whole_request = 1'000'000;

} // namespace

void TrafficSplit::set(double share) noexcept {
  millionths_ = static_cast<std::uint32_t>(std::lround(share * whole_request));
}

void TrafficSplit::restart(double share) noexcept {
  set(share);
  owed_ = 0;
}

double TrafficSplit::share() const noexcept {
  return static_cast<double>(millionths_) / whole_request;
}

bool TrafficSplit::next() noexcept {
  owed_ += millionths_;
  if (owed_ < whole_request)
    return false;
  owed_ -= whole_request;
  return true;
}

} // namespace serve::batching

// How many answers of each status a front has given.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace serve {

/// Any thread. Statuses are those of HTTP, or gRPC's codes.
class StatusCounts {
public:
  void add(int status) noexcept {
    const auto index = static_cast<std::size_t>(status);
    if (index < counts_.size())
      counts_[index].fetch_add(1, std::memory_order_relaxed);
  }

  /// Calls `look(status, count)` for each that has been given, in order.
  template <class Look>
  void each(Look look) const {
    for (std::size_t status = 0; status < counts_.size(); ++status)
      if (const auto count = counts_[status].load(std::memory_order_relaxed))
        look(static_cast<int>(status), count);
  }

private:
  std::array<std::atomic<std::uint64_t>, 600> counts_{};
};

} // namespace serve

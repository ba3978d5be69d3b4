// DialTurns: which of several addresses is dialled next, and after which pause. Pure.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpuactors {

/// One address after the other, with pauses that grow with each round of failures.
class DialTurns {
public:
  /// @param addresses how many there are, one at least.
  explicit DialTurns(std::size_t addresses) : addresses_(addresses) {
    // nop
  }

  /// The number of the address that is dialled, or is the connection's.
  [[nodiscard]] std::size_t at() const noexcept {
    return at_;
  }

  void connected() noexcept {
    failures_ = 0;
    is_connected_ = true;
  }

  /// There was no connection, or it is lost: the next address is due.
  /// @returns after which pause: from the shortest to the longest, doubled with each round, plus up to a quarter at
  ///          random, so that many processes do not connect at the same moment.
  Duration lost(std::uint64_t random) noexcept {
    if (std::exchange(is_connected_, false))
      refusals_ = 0;
    return next(failures_++ / addresses_, random);
  }

  /// As `lost`, where there is a connection of no use. The pauses grow as well, so that nobody is asked without end,
  /// and stay so short that a round takes no longer than a new broker waits: whoever refuses may be that in a moment.
  Duration refused(std::uint64_t random) noexcept {
    constexpr std::size_t most = 4;
    is_connected_ = false;
    ++failures_;
    refusals_ = std::min(refusals_ + 1, most);
    return next(refusals_, random);
  }

private:
  Duration next(std::size_t doublings, std::uint64_t random) noexcept {
    at_ = (at_ + 1) % addresses_;
    const auto doubled = limits::redial_shortest * (1U << std::min<std::size_t>(doublings, 10));
    const auto pause = std::min<Duration>(doubled, limits::redial_longest);
    return pause + Duration{static_cast<Duration::rep>(random % static_cast<std::uint64_t>(pause.count() / 4 + 1))};
  }

  std::size_t addresses_;
  std::size_t at_ = 0;
  std::size_t failures_ = 0;
  std::size_t refusals_ = 0;
  bool is_connected_ = false;
};

} // namespace gpuactors

// Followers: whom a broker that serves lets follow it. Pure: the time is an argument.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <string>

namespace gpuactors {

/// One broker at a time stands by for one that serves, and asks it again and again.
class Followers {
public:
  /// What is new about the one that asks.
  enum class News : std::uint8_t { none, another, back };

  /// @param term that of the broker that serves.
  /// @param patience how long one that does not ask counts as there.
  Followers(std::uint64_t term, Duration patience) : term_(term), patience_(patience) {
    // nop
  }

  /// @returns `unavailable` for one with a later state, `already_exists` beside another one.
  Result<News> admit(const v1::FollowState& question, TimePoint now);

  /// Whether the follower has stopped asking; true once, until it is back.
  bool is_lost(TimePoint now);

  /// This process stood still, and could not hear who asks.
  void stood_still(TimePoint now) noexcept {
    asked_ = now;
  }

  /// Where the one listens that has asked last; empty: none has.
  [[nodiscard]] const std::string& address() const noexcept {
    return address_;
  }

private:
  const std::uint64_t term_;
  const Duration patience_;
  std::string address_;
  TimePoint asked_{};
  bool lost_ = false;
};

} // namespace gpuactors

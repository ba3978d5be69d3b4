// Followers: whom a broker that serves lets follow it. Pure: the time is an argument.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gpuactors {

/// One broker at a time stands by for one that serves, and asks it again and again.
class Followers {
public:
  /// What is new about the one that asks.
  enum class News : std::uint8_t { none, another, back };

  /// @param term that of the broker that serves.
  /// @param patience how long one that does not ask counts as there.
  /// @param expected where the one listens that stood by before the broker started at `now`; empty: none did.
  Followers(std::uint64_t term, Duration patience, std::string expected = {}, TimePoint now = {})
    : term_(term), patience_(patience), expected_(std::move(expected)), asked_(now) {
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

  /// What there is to know of the one that follows, or has followed; nothing if there was none.
  [[nodiscard]] std::optional<v1::StandbyState> state(TimePoint now) const;

  /// Where the one listens that has asked last; empty: none has.
  [[nodiscard]] const std::string& address() const noexcept {
    return address_;
  }

private:
  const std::uint64_t term_;
  const Duration patience_;
  const std::string expected_;
  std::string address_;
  TimePoint asked_;
  bool has_copy_ = false;
  bool lost_ = false;
};

} // namespace gpuactors

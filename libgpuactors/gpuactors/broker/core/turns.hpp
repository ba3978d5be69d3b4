// Turns: how often leases that clients keep for their next task make way for what waits. Pure: the time is an argument.
// Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gpuactors {

/// While requests wait, leases are reclaimed turn after turn, so that a client which acquires one after another does
/// not keep the others out. If a turn did not help, for example because an actor holds what is missing, the next one
/// will not either: turns become longer.
class Turns {
public:
  /// What waits for room in the quota of one owner.
  struct OverQuota {
    /// What all that waits has in common, as in `TaskRequest::key`; empty if it differs or is no task's.
    std::string key;
    /// The number of the first request, or of the first group if there is no request.
    std::uint64_t first = 0;
  };

  /// By owner.
  using OverQuotas = std::map<std::string, OverQuota>;

  /// Who waits at the end of a turn.
  struct Waiting {
    /// The oldest request that could be served.
    std::optional<RequestId> oldest;
    OverQuotas over_quotas;
    /// Whether a placement group waits that no quota keeps out, and not in vain.
    bool group = false;
  };

  /// Begins a turn, unless one is under way. @returns its length: a wake-up at its end is to be asked for.
  [[nodiscard]] std::optional<Duration> begin(TimePoint now) {
    if (std::exchange(under_way_, true))
      return std::nullopt;
    return start(now);
  }

  /// Something else has come to wait while a turn is under way: cuts it short if it is longer than the first ones.
  /// @returns the length of the one that begins in its place.
  [[nodiscard]] std::optional<Duration> cut_short(TimePoint now) {
    if (length_ <= limits::lease_turn)
      return std::nullopt;
    length_ = limits::lease_turn;
    return start(now);
  }

  /// Whether somebody waits, and turns have not become longer because they help nobody.
  [[nodiscard]] bool help() const noexcept {
    return under_way_ && length_ <= limits::lease_turn;
  }

  /// A placement group has come to wait, as in `Waiting::group`.
  void group_waits() {
    waiting_.group = true;
  }

  /// Whether one waited at the end of the last turn, or has come since.
  [[nodiscard]] bool has_group() const noexcept {
    return waiting_.group;
  }

  /// @returns false for the wake-up of a turn that was cut short.
  [[nodiscard]] bool end(TimePoint now) {
    if (now < end_)
      return false;
    under_way_ = false;
    end_ = never;
    return true;
  }

  /// Decides the length of the next turn by what waits now, and by what waited at the end of the one before.
  void look(Waiting now) {
    bool helped = now.oldest && now.oldest != waiting_.oldest;
    for (const auto& [owner, over] : now.over_quotas) {
      const auto before = waiting_.over_quotas.find(owner);
      helped |= before == waiting_.over_quotas.end() || before->second.first != over.first;
    }
    length_ = helped ? Duration{limits::lease_turn} : std::min<Duration>(2 * length_, longest);
    waiting_ = std::move(now);
  }

  /// Nobody waits for whom leases could make way; what waits for quotas all the same does not count as new later.
  void rest(OverQuotas over_quotas) {
    length_ = limits::lease_turn;
    waiting_.over_quotas = std::move(over_quotas);
    waiting_.group = false;
  }

  /// What waited for quotas at the end of the last turn.
  [[nodiscard]] const OverQuotas& over_quotas() const noexcept {
    return waiting_.over_quotas;
  }

private:
  static constexpr std::chrono::seconds longest{10};

  Duration start(TimePoint now) {
    end_ = deadline_after(now, length_);
    return length_;
  }

  bool under_way_ = false;
  Duration length_ = limits::lease_turn;
  TimePoint end_ = never;
  Waiting waiting_;
};

} // namespace gpuactors

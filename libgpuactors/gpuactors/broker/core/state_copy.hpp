// StateCopy: a broker that stands by keeps what the active one keeps.
#pragma once

#include <gpuactors/broker/core/desired_state.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gpuactors {

/// The follower of a `StateFeed`: tells what to ask next, and applies the answers to a state of its own. That has at
/// each time what the other one had at some time: changes wait outside of it until they are complete. One thread at a
/// time.
class StateCopy {
public:
  /// @param address where the process with the copy listens.
  /// @param term how often the state that it has now was taken over: a broker with an older one must not replace it.
  /// @param has_copy whether it has one.
  StateCopy(std::shared_ptr<DesiredState> to, std::string address, std::uint64_t term = 0, bool has_copy = false);

  /// What to ask next.
  [[nodiscard]] const v1::FollowState& next() const noexcept {
    return next_;
  }

  /// Applies the answer to it.
  /// @returns whether there is more to be asked at once; errors of the own state, `unsupported` for a state of a later
  ///          revision, `invalid_argument` for an answer that cannot be one. The next request begins anew then.
  Result<bool> take(const v1::StateChanges& answer);

  /// Whether the copy is of one piece: all that the other one had, at some time since this object was made.
  [[nodiscard]] bool is_complete() const noexcept {
    return complete_;
  }

private:
  using EntryKey = std::pair<StateSection, StateKey>;

  Result<bool> apply(const v1::StateChanges& answer);
  /// Has the own state be what was taken.
  Result<void> write();
  /// Has it have nothing but what is its broker's own.
  Result<void> clear();

  std::shared_ptr<DesiredState> to_;
  v1::FollowState next_;
  /// What was taken and is not in the own state yet; without a value: it is to be removed. With `anew_`, it is all that
  /// is to be there.
  std::map<EntryKey, std::optional<std::string>> taken_;
  /// What the own state was given since it last took changes: it may still write that.
  std::set<EntryKey> unsure_;
  bool anew_ = false;
  bool complete_ = false;
};

} // namespace gpuactors

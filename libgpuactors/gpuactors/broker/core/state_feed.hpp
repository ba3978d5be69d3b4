// StateFeed: what a broker keeps, told to brokers that stand by for it: all of it once, and then what changes.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/desired_state.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gpuactors {

/// The key in `StateSection::ids` under which a broker keeps where the other one listens: that which stands by for it,
/// or for which it stands by.
inline constexpr const char* standby_key = "standby";

/// The key in `StateSection::ids` that is there while a broker serves, or has served when it ended.
inline constexpr const char* serves_key = "serves";

/// The key in `StateSection::ids` that is there once a broker that stands by has all of a state.
inline constexpr const char* copied_key = "copied";

/// The key in `StateSection::ids` under which a copy begins with the revision of the state, as text. No store has it.
inline constexpr const char* revision_key = "revision";

/// Whether an entry is of one broker alone, so that no other one takes it over.
[[nodiscard]] bool is_own_entry(StateSection section, const StateKey& key);

/// The form of an entry in messages; without a value: it was removed.
[[nodiscard]] v1::StateEntry to_wire(StateSection section, const StateKey& key,
                                     const std::optional<std::string>& value);

/// A desired state in front of another one, which remembers what was committed last. Followers ask again and again
/// (docs/design/0045-standby-brokers.md): nothing has to be kept for each of them. One thread at a time.
class StateFeed : public DesiredState {
public:
  /// @param log tells the logs of different brokers apart; not 0.
  StateFeed(std::shared_ptr<DesiredState> store, std::uint64_t log);

  void put(StateSection section, StateKey key, std::string value) override;
  void erase(StateSection section, StateKey key) override;
  Result<void> commit() override;
  [[nodiscard]] Result<std::vector<StateEntry>> load(StateSection section) const override;

  /// Answers a follower: with the changes since the last one that it knows, or, if those are not remembered any more,
  /// with everything, in parts.
  /// @returns errors of `load`.
  [[nodiscard]] Result<v1::StateChanges> read(const v1::FollowState& request);

private:
  using Change = std::pair<std::pair<StateSection, StateKey>, std::optional<std::string>>;

  /// A part of everything: entries behind `last`, or from the first on.
  Result<void> copy(const v1::StateEntry* last, v1::StateChanges& answer);

  std::shared_ptr<DesiredState> store_;
  const std::uint64_t log_;
  std::map<std::pair<StateSection, StateKey>, std::optional<std::string>> pending_;
  /// The latest changes, the last of which has the number `number_`. None are remembered before somebody follows.
  std::deque<Change> changes_;
  std::size_t changes_bytes_ = 0;
  std::uint64_t number_ = 0;
  bool followed_ = false;
  /// The section of which a part was copied last, while not all of it is.
  std::optional<std::pair<StateSection, std::vector<StateEntry>>> copied_;
};

} // namespace gpuactors

// What a broker's own store says about its part in a pair of brokers: whether it serves or stands by, and who gives
// way (docs/design/0045-standby-brokers.md). Pure: no clock, no network.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/broker/core/desired_state.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace gpuactors {

/// What is in a store, besides the state that brokers share.
struct BrokerRole {
  /// How often the state that is there was taken over.
  std::uint64_t term = 0;
  /// Of the state that is there; empty: there is none.
  std::string lineage;
  /// The broker served when it ended.
  bool served = false;
  /// The state that is there is a whole copy of another broker's. Otherwise it is its own, of when it served.
  bool copied = false;
  /// Where the other broker of the pair listens, if there is one.
  std::optional<std::string> other;
  /// The nodes that the other one is known to have had.
  std::set<std::string> nodes;

  [[nodiscard]] bool has_state() const noexcept {
    return !lineage.empty();
  }
};

/// @returns errors of `load`.
Result<BrokerRole> role_in(const DesiredState& store);

/// What a broker does when it starts.
enum class BrokerStart : std::uint8_t {
  serve,
  stand_by,
  /// It served when it ended, and does so again unless the other one serves now: ask that, with `start_question`.
  ask,
};

/// @param has_other whether it knows another broker, by its options or by its store.
[[nodiscard]] BrokerStart start_of(const BrokerRole& role, bool has_other);

/// Only one that serves answers it, and has no older state than `role`.
[[nodiscard]] v1::FollowState start_question(const BrokerRole& role);

/// Writes into the store that the broker stands by for another one from now on.
/// @returns errors of `commit`.
Result<void> begin_to_stand_by(DesiredState& store, const std::string& other);

/// Writes into the store that nobody stands by for the broker any more.
/// @returns errors of `commit`.
Result<void> forget_standby(DesiredState& store);

/// Writes into the store which nodes the other broker has.
/// @returns errors of `commit`.
Result<void> keep_nodes(DesiredState& store, const std::set<std::string>& nodes);

/// Writes into the store that the broker serves with it from now on. One that takes over with a copy of another
/// broker's state begins a new term. With a state of its own that the other one has taken over before, it does not:
/// that one has the later state, and serves when it is back.
/// @param takes_over whether it stood by.
/// @param new_lineage of the state, if there is none.
/// @returns what it tells the other broker, but for its address, or errors of `commit`.
Result<v1::TakenOver> begin_to_serve(DesiredState& store, bool takes_over, std::int64_t since_unix_ns,
                                     std::string_view new_lineage);

/// Whether of two brokers that serve, the one that says `own` ends, and the one that says `other` goes on.
[[nodiscard]] bool gives_way(const v1::TakenOver& own, const v1::TakenOver& other);

/// Of two brokers that stand by for each other: whether the one that asks `own` has the state with which to go on.
[[nodiscard]] bool goes_first(const v1::FollowState& own, const v1::FollowState& other);

} // namespace gpuactors

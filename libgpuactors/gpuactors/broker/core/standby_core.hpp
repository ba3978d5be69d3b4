// StandbyCore: what a broker decides that stands by for another one. Pure: the time is an argument, and what is to be
// asked and said is returned.
#pragma once

#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/core/state_copy.hpp>
#include <gpuactors/broker/core/succession.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace gpuactors {

/// Keeps a copy of what the active broker keeps, and says when it is time to take over. One thread at a time.
class StandbyCore {
public:
  struct Options {
    /// Where this one listens, and the one for which it stands by.
    std::string address;
    std::string active;
    Succession::Rules rules;
    /// The nodes that the active one has, as far as it has said so already.
    std::set<std::string> nodes{};
  };

  /// What is to be done after an answer.
  struct Step {
    enum class Next : std::uint8_t {
      ask,
      /// After `limits::follow_interval`.
      ask_later,
      /// The connection is of no use: dial again.
      dial,
    };

    Next next = Next::ask_later;
    /// Why to dial.
    std::optional<Error> why{};
    /// A line for people.
    std::optional<std::string> notice{};
  };

  /// @param store one in which it is written that this broker stands by.
  /// @param role what was in it before.
  StandbyCore(std::shared_ptr<DesiredState> store, BrokerRole role, Options options, TimePoint now);

  /// What to ask the active broker next.
  [[nodiscard]] const v1::FollowState& question() const noexcept {
    return copy_.next();
  }

  /// The active broker has answered the question, or has not.
  Step answered(const Result<v1::StateChanges>& answer, TimePoint now);

  /// There is no connection to the active broker, and none can be made.
  /// @returns a line for people, if that is new.
  std::optional<std::string> unreachable(const Error& why);

  /// A node has asked here.
  void asked(const std::string& node, TimePoint now) {
    succession_.asked(node, now);
  }

  /// Another broker would follow this one: the active one, if that stands by, too.
  void followed(const v1::FollowState& by);

  /// Call it often: what lies far apart is taken for a standstill of this process.
  /// @returns nothing while the other one serves, or should be waited for; why it is time to take over, for people; or
  ///          why that never comes: `unsupported` if the active broker keeps nothing, or is of a release that this one
  ///          does not understand, `already_exists` if another one stands by for it, `invalid_argument` if its state is
  ///          not the one that is here.
  std::optional<Result<std::string>> look(TimePoint now);

private:
  Result<bool> take(const v1::StateChanges& changes, Step& step, TimePoint now);

  std::shared_ptr<DesiredState> store_;
  BrokerRole role_;
  const Options options_;
  StateCopy copy_;
  Succession succession_;
  bool is_first_ = false;
  bool follows_ = false;
  bool is_cut_off_ = false;
  std::optional<Error> failure_;
  TimePoint looked_;
  std::string said_;
};

} // namespace gpuactors

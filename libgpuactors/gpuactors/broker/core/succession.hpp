// Succession: when a broker that stands by takes the place of the active one. Pure: the time is an argument.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace gpuactors {

/// A broker that stands by cannot tell whether the active one is dead or only out of its own sight. The nodes can:
/// those that lose their broker ask at the next of its addresses. So the one that stands by takes over once it has had
/// no answer for `patience` itself, has a copy of its state, and more than half of the nodes have asked here within
/// `vote_lasts`: of those that the active one had, and of those that ask, which it may have lost before it died. A node
/// has one broker at a time, so no device is ever granted by two.
class Succession {
public:
  struct Rules {
    Duration patience{};
    Duration vote_lasts{};
    /// How many nodes have to ask; 0: more than half of them.
    std::size_t votes = 0;
    /// How long it waits if its copy is old: the active one served on without this one, so that it is better if it
    /// comes back itself.
    Duration old_copy_waits = std::chrono::seconds{30};
  };

  /// @param nodes those that the active broker is known to have had.
  Succession(Rules rules, std::set<std::string> nodes, TimePoint now);

  /// The active broker has answered, and has these nodes.
  void answered(std::set<std::string> nodes, TimePoint now);

  /// There is a copy of the active broker's state, of an unknown time. Without one, nothing would be gained.
  void copied() noexcept {
    has_copy_ = true;
  }

  /// The copy is what the active broker had at this time.
  void copied(TimePoint at) noexcept {
    has_copy_ = true;
    copied_ = at;
  }

  /// A node has asked here.
  void asked(const std::string& node, TimePoint now);

  /// This process stood still: what it has not heard meanwhile says nothing, nor does what it hears late.
  void stood_still(TimePoint now);

  [[nodiscard]] bool is_due(TimePoint now) const;

  /// For people: how long there was no answer, how many nodes have asked, and how old an old copy is.
  [[nodiscard]] std::string describe(TimePoint now) const;

  [[nodiscard]] const std::set<std::string>& nodes() const noexcept {
    return nodes_;
  }

private:
  [[nodiscard]] std::size_t votes(TimePoint now) const;
  [[nodiscard]] std::size_t all(TimePoint now) const;
  [[nodiscard]] std::size_t needed(TimePoint now) const;
  /// Whether the nodes have had a broker since the time of the copy, which can only be the active one.
  [[nodiscard]] bool is_old() const;

  const Rules rules_;
  std::set<std::string> nodes_;
  TimePoint answered_;
  std::map<std::string, TimePoint> asked_;
  bool has_copy_ = false;
  std::optional<TimePoint> copied_;
  /// Since when enough nodes ask.
  std::optional<TimePoint> enough_since_;
};

} // namespace gpuactors

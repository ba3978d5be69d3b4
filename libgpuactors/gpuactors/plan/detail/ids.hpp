// The ids that a scenario gives to its requests or groups, in memory that grows with what waits or is held and by a few
// bytes for each id that is over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpuactors::plan_detail {

/// waiting or held -> over (refused, lost) -> released; or straight to released.
enum class Phase : std::uint8_t { unknown, live, over, released };

/// A map from the fingerprints of ids to whether they were released: 8 bytes an entry, in a table that is at most 3/4
/// full. Two ids with one fingerprint of 63 bits are one id to it: among a million ids, once in 20 million scenarios.
class Fingerprints {
public:
  /// `over`, `released`, or `unknown` for what was never set.
  [[nodiscard]] Phase find(std::string_view name) const;

  /// Enters an id as over or released, or changes it.
  void set(std::string_view name, Phase phase);

private:
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const;
  void grow();

  // Fingerprint, and 1 in the lowest bit once it was released; 0 is an empty slot.
  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

/// Requests or groups by the name that the scenario gives them; their number counts from 1 in order of appearance.
/// Keeps the names of what is live only.
class IdTable {
public:
  /// Enters a new id. @throws ScenarioError when it is or was in use.
  std::uint64_t add(const std::string& name, const std::string& place);

  /// The phase of an id. @throws ScenarioError for an unknown one, naming those that resemble it.
  [[nodiscard]] Phase phase_of(const std::string& name, const std::string& place) const;

  /// The number of a live id.
  [[nodiscard]] std::uint64_t number_of(const std::string& name) const {
    return numbers_.at(name);
  }

  /// The id of a live number.
  [[nodiscard]] const std::string& name_of(std::uint64_t number) const {
    return *names_.at(number);
  }

  /// A live id is over or released: forgets its name.
  void end(std::uint64_t number, Phase phase);

  /// What was over is released.
  void release(const std::string& name) {
    ended_.set(name, Phase::released);
  }

private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
  std::unordered_map<std::uint64_t, const std::string*> names_;
  Fingerprints ended_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors::plan_detail

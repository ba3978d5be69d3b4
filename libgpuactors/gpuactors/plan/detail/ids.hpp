// The ids that a scenario gives to its requests or groups. Memory grows with the live ids, and by a few bytes for each
// id that is over.
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
/// full. Two ids with the same fingerprint of 63 bits count as one id: among a million ids, this happens once in 20
/// million scenarios.
class Fingerprints {
public:
  /// Returns `over` or `released`, or `unknown` for an id that was never set.
  [[nodiscard]] Phase find(std::string_view name) const;

  /// Enters an id as over or released, or changes it.
  void set(std::string_view name, Phase phase);

private:
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const;
  void grow();

  // Fingerprints, with 1 in the lowest bit once the id was released; 0 is an empty slot.
  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

/// Numbers of requests or groups by the names that the scenario gives them. Numbers count from 1 in order of
/// appearance. Keeps the names of live ids only.
class IdTable {
public:
  /// Enters a new id and returns its number. @throws ScenarioError if the id is or was in use.
  std::uint64_t add(const std::string& name, const std::string& place);

  /// Returns the phase of an id. @throws ScenarioError for an unknown id, naming similar ones.
  [[nodiscard]] Phase phase_of(const std::string& name, const std::string& place) const;

  /// Returns the number of a live id.
  [[nodiscard]] std::uint64_t number_of(const std::string& name) const {
    return numbers_.at(name);
  }

  /// Returns the id of a live number.
  [[nodiscard]] const std::string& name_of(std::uint64_t number) const {
    return *names_.at(number);
  }

  /// Ends a live id as over or released, and forgets its name.
  void end(std::uint64_t number, Phase phase);

  /// Marks an id that was over as released.
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

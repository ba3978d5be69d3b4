// StateStore: the file with what a broker has to know again after a restart.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/broker/core/desired_state.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

/// Desired state by section and key, in an SQLite file that no other process uses meanwhile.
///
/// Commits survive the death of the process. After a power loss or a crash of the machine the latest commits may be
/// missing; the file then has the state of an earlier commit, never a mixture. One thread at a time.
class StateStore : public DesiredState {
public:
  /// Opens the file, or creates it with access for its owner alone; the folder must exist. The object locks the file
  /// until it is destroyed or the process ends.
  /// A file of an earlier revision becomes one of this program's (base/revisions.hpp).
  /// @returns `already_exists` when another store still has the file after a short wait, `unsupported` for a file of a
  ///          later revision, `invalid_argument` for a file that is damaged, belongs to another program or cannot be at
  ///          this path, `unavailable` when the disk is full.
  static Result<std::unique_ptr<StateStore>> open(const std::filesystem::path& path);

  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// Drops uncommitted changes.
  ~StateStore() override;

  /// How many times the file was opened, this time included. No two opens share a number, not even after a power loss.
  [[nodiscard]] std::uint64_t incarnation() const noexcept {
    return incarnation_;
  }

  // Overrides of `DesiredState`.
  void put(StateSection section, StateKey key, std::string value) override;
  void erase(StateSection section, StateKey key) override;
  /// @returns `unavailable` when the disk is full, `invalid_argument` when the file was damaged, removed or replaced.
  Result<void> commit() override;
  /// As in DesiredState, but number keys from 2^63 on come first: SQLite's integers are signed.
  [[nodiscard]] Result<std::vector<StateEntry>> load(StateSection section) const override;

private:
  class Database;

  explicit StateStore(std::unique_ptr<Database> database);

  std::unique_ptr<Database> database_;
  std::uint64_t incarnation_ = 0;
  /// Uncommitted changes; a key without a value is to be removed.
  std::map<std::pair<StateSection, StateKey>, std::optional<std::string>> pending_;
};

} // namespace gpuactors

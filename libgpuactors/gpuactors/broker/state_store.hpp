// What a broker has to know again after a restart, in one file.
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

/// Desired state by section and key, in an SQLite file of this program alone.
///
/// What was committed is there again after this process was killed. After a power loss or a crash of the machine the
/// last commits may be missing, the later ones before the earlier ones; what is there is what some commit left. One
/// thread at a time.
class StateStore : public DesiredState {
public:
  /// Opens a file, for its owner alone, or makes it; the folder must be there. Held by this object until it is
  /// destroyed or the process ends.
  /// @returns `already_exists` when another store has the file (after a moment of waiting for it), `unsupported` for
  ///          one written by a newer version, `invalid_argument` for one that is damaged, of another program, or in no
  ///          place where it could be, `unavailable` for a disk without room.
  static Result<std::unique_ptr<StateStore>> open(const std::filesystem::path& path);

  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// What was put and not committed is dropped.
  ~StateStore() override;

  /// How many times the file was opened, this time included. Never the same twice, not after a power loss either.
  [[nodiscard]] std::uint64_t incarnation() const noexcept {
    return incarnation_;
  }

  // See DesiredState.
  void put(StateSection section, StateKey key, std::string value) override;
  void erase(StateSection section, StateKey key) override;
  /// @returns `unavailable` for a disk without room, `invalid_argument` for a file that was damaged, removed or
  ///          replaced.
  Result<void> commit() override;
  /// Numbers from 2^63 on come first.
  [[nodiscard]] Result<std::vector<StateEntry>> load(StateSection section) const override;

private:
  class Database;

  explicit StateStore(std::unique_ptr<Database> database);

  std::unique_ptr<Database> database_;
  std::uint64_t incarnation_ = 0;
  /// Nothing for what is to be removed.
  std::map<std::pair<StateSection, StateKey>, std::optional<std::string>> pending_;
};

} // namespace gpuactors

// What should be there over restarts of the broker: actors that are detached or have a name, groups, drained nodes.
#pragma once

#include <gpuactors/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpuactors {

/// What a piece of state is about.
enum class StateSection : std::uint8_t {
  actors,
  groups,
  nodes,
  ids,
};

/// "actors", "groups", "nodes" or "ids".
[[nodiscard]] constexpr std::string_view to_string(StateSection section) noexcept {
  constexpr std::array<std::string_view, 4> names = {"actors", "groups", "nodes", "ids"};
  return names[static_cast<std::size_t>(section)];
}

/// In `StateSection::ids`: the number, as text, up to which ids may have been given out.
inline constexpr const char* reserved_ids_key = "reserved";

/// The number or name of what a piece of state is about; a number is never the same as a name.
using StateKey = std::variant<std::uint64_t, std::string>;

struct StateEntry {
  StateKey key;
  /// Any bytes.
  std::string value;

  friend bool operator==(const StateEntry&, const StateEntry&) = default;
};

/// Pieces of state by section and key. One thread at a time.
class DesiredState {
public:
  DesiredState() = default;
  DesiredState(const DesiredState&) = delete;
  DesiredState& operator=(const DesiredState&) = delete;
  virtual ~DesiredState() = default;

  /// Has the next commit write a value, in place of any that the key has.
  virtual void put(StateSection section, StateKey key, std::string value) = 0;

  /// Has the next commit remove a key, if it is there.
  virtual void erase(StateSection section, StateKey key) = 0;

  /// Keeps all that was put and erased since the last commit, or nothing of it.
  /// @returns an error; then the next commit tries the same again, with what is put until then.
  virtual Result<void> commit() = 0;

  /// All of a section that is committed, numbers before names, both ascending.
  [[nodiscard]] virtual Result<std::vector<StateEntry>> load(StateSection section) const = 0;
};

} // namespace gpuactors

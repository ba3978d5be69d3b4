// DesiredState: what survives a restart of the broker: actors that are named, detached or may be restarted, placement
// groups, drained nodes, quotas, and which actors are not to come back.
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

/// The kind of a state entry.
enum class StateSection : std::uint8_t {
  actors,
  groups,
  nodes,
  ids,
  ended,
  quotas,
};

inline constexpr std::uint32_t state_sections = 6;

/// "actors", "groups", "nodes", "ids", "ended" or "quotas".
[[nodiscard]] constexpr std::string_view to_string(StateSection section) noexcept {
  constexpr std::array<std::string_view, state_sections> names = {"actors", "groups", "nodes",
                                                                  "ids",    "ended",  "quotas"};
  return names[static_cast<std::size_t>(section)];
}

/// Key in `StateSection::ids`: its value is the number, as text, up to which ids may have been issued.
inline constexpr const char* reserved_ids_key = "reserved";

/// Key in `StateSection::ids`: its value is the number, as text, of times that a broker which stood by has taken over.
inline constexpr const char* term_key = "term";

/// Key in `StateSection::ids`: its value is a random text, made with the state.
inline constexpr const char* lineage_key = "lineage";

/// The number or name of what an entry is about; a number never equals a name.
using StateKey = std::variant<std::uint64_t, std::string>;

struct StateEntry {
  StateKey key;
  /// Arbitrary bytes.
  std::string value;

  friend bool operator==(const StateEntry&, const StateEntry&) = default;
};

/// State entries by section and key. One thread at a time.
class DesiredState {
public:
  DesiredState() = default;
  DesiredState(const DesiredState&) = delete;
  DesiredState& operator=(const DesiredState&) = delete;
  virtual ~DesiredState() = default;

  /// Sets a key's value at the next commit.
  virtual void put(StateSection section, StateKey key, std::string value) = 0;

  /// Removes a key, if it exists, at the next commit.
  virtual void erase(StateSection section, StateKey key) = 0;

  /// Makes all changes since the last commit permanent, or none of them.
  /// @returns an error; the next commit then tries the same changes again, and those made meanwhile.
  virtual Result<void> commit() = 0;

  /// All committed entries of a section, numbers before names, both ascending.
  [[nodiscard]] virtual Result<std::vector<StateEntry>> load(StateSection section) const = 0;
};

} // namespace gpuactors

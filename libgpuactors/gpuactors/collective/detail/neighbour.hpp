// How a member finds the next one, which may be between two lives. Internal to the layer.
#pragma once

namespace gpuactors::detail {

/// Returns what `find` does, once that is there. The broker may name a life that has just ended, until it knows of that
/// end: the reference is away then, and operations take a neighbour that is away for one that is gone.
/// @param find returns the `Result` of a reference.
/// @param pause waits before it is looked for again; returns false when the time for that is over.
/// @returns the last reference; it is away if the time was over.
template <class Find, class Pause>
[[nodiscard]] auto find_present(const Find& find, const Pause& pause) {
  auto found = find();
  while (found && found->away() && pause())
    found = find();
  return found;
}

} // namespace gpuactors::detail

// Revisions: numbers of what processes send to each other, and of what a broker keeps on disk. Unlike the release, they
// change only when the other side has to know (docs/design/0048-releases-side-by-side.md).
#pragma once

#include <cstdint>

namespace gpuactors {

/// The revision of the messages between processes that this program speaks, and the oldest one that it still speaks.
/// Two processes use the higher one of those that both speak; without any, neither takes the other's connection.
///
/// A message, a field or a value that older programs must not be sent makes a new revision. One that they may ignore
/// makes none.
inline constexpr std::uint32_t wire_revision = 1;
inline constexpr std::uint32_t oldest_wire_revision = 1;

/// The revision of a broker's state, in its file and in the copy that another broker keeps. A program reads those up to
/// its own, and refuses later ones: it would drop what it does not know.
///
/// 2: host memory in bytes, the term and the lineage of states that are handed over.
inline constexpr std::uint32_t state_revision = 2;

} // namespace gpuactors

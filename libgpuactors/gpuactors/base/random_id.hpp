// Random numbers that are unique in practice, as ids of processes, clients and readers.
#pragma once

#include <cstdint>

namespace gpuactors {

/// Returns a non-zero number of 63 random bits from the system's source, which nobody can guess. Any thread; also in a
/// process that was forked, which gets other numbers than its parent.
[[nodiscard]] std::uint64_t random_id();

} // namespace gpuactors

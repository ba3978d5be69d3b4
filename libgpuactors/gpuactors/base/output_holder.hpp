// Attributes the lines that a thread writes to a lease holder.
#pragma once

#include <gpuactors/base/ids.hpp>

namespace gpuactors {

/// Attributes the following output of the calling thread to the holder of this lease; to nobody for an empty one, the
/// initial state of every thread. It matters where the output of a process is marked (`mark_worker_output`).
void set_output_holder(LeaseId holder) noexcept;

/// Returns the calling thread's current lease.
[[nodiscard]] LeaseId output_holder() noexcept;

} // namespace gpuactors

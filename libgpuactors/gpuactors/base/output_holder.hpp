// Attributes the lines that a thread writes to a lease holder.
#pragma once

#include <gpuactors/base/ids.hpp>

namespace gpuactors {

/// Attributes the following output of the calling thread to the holder of this lease; an empty id, the initial state of
/// every thread, attributes it to nobody. This has an effect only where the output of a process is marked
/// (`mark_worker_output`).
void set_output_holder(LeaseId holder) noexcept;

/// Returns the calling thread's current lease.
[[nodiscard]] LeaseId output_holder() noexcept;

} // namespace gpuactors

// Whose work a thread does, for the lines that it writes.
#pragma once

#include <gpuactors/base/ids.hpp>

namespace gpuactors {

/// Says that what the calling thread writes from now on is of the holder of this lease; of nobody in particular for an
/// empty one, with which every thread begins. It counts where the output of a process is marked (`mark_worker_output`).
void set_output_holder(LeaseId holder) noexcept;

/// What was said last in the calling thread.
[[nodiscard]] LeaseId output_holder() noexcept;

} // namespace gpuactors

// Whether a thread is one that runs callbacks.
#pragma once

namespace gpuactors {

/// Returns whether this is the thread of an `Executor`: what waits here for a callback waits for ever.
[[nodiscard]] bool is_callback_thread() noexcept;

} // namespace gpuactors

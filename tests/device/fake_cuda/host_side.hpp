// What the fake driver has on the host: pinned memory, and functions that it calls in stream order.
#pragma once

#include <cuda.h>

namespace gpuactors::fake {

CUresult mem_host_alloc(void** memory, std::size_t bytes, unsigned flags);
CUresult mem_free_host(void* memory);

/// Whether the driver has pinned it.
bool is_pinned(const void* memory);

/// Calls it as the driver does.
void call_host_function(CUhostFn function, void* data);

/// Whether this thread runs a host function, which must not call the driver.
bool is_in_host_function();

/// Keeps it for later, if a test wants that. @returns whether it does.
bool hold_host_function(CUhostFn function, void* data);

} // namespace gpuactors::fake

// What the fake driver has on the host: pinned memory, and functions that it calls in stream order.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace gpuactors::fake {

CUresult mem_host_alloc(void** memory, std::size_t bytes, unsigned flags);
CUresult mem_free_host(void* memory);

/// Whether the driver has pinned it.
bool is_pinned(const void* memory);

/// Calls it as the driver does.
void call_host_function(CUhostFn function, void* data);

/// Whether this thread runs a host function, which must not call the driver.
bool is_in_host_function();

/// Counts a host function on that stream.
void note_host_function(CUstream stream);
void forget_host_functions(CUstream stream);

/// Keeps it for later, if a test wants that. @returns its number; 0: nobody wants that.
std::size_t hold_host_function(CUhostFn function, void* data);

/// As a kernel: runs until the host function whose number `pack` is was called, or the context is lost.
void await_held(std::uint64_t, std::uint64_t, const void* pack);

/// To be told when the context is lost.
void wake_held();

} // namespace gpuactors::fake

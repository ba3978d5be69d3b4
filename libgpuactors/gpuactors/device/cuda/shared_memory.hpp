// Memory of a CUDA device that processes share, by the driver's virtual memory management.
#pragma once

#include <gpuactors/device/cuda/primary.hpp>
#include <gpuactors/device/shared_memory.hpp>

#include <memory>

namespace gpuactors::cuda {

/// What a block for `bytes` takes. The primary context is current.
/// @returns `unsupported` for a device without memory that processes share by descriptors.
Result<std::size_t> shared_footprint(Primary& primary, std::size_t bytes);

/// Makes memory that others can open by a file descriptor. The primary context is current.
/// @returns `unsupported` for a device without such memory, `out_of_memory`.
Result<std::shared_ptr<SharedMemory>> make_shared_memory(std::shared_ptr<Primary> primary, std::size_t bytes);

/// Maps memory that another process made, for reading. The primary context is current.
/// @returns `unsupported` when this device cannot reach it.
Result<std::shared_ptr<SharedMemory>> open_shared_memory(std::shared_ptr<Primary> primary, int descriptor,
                                                         std::size_t bytes);

} // namespace gpuactors::cuda

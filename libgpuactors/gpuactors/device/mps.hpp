// Finds out whether CUDA MPS runs, which lets processes use a GPU at the same time.
#pragma once

#include <filesystem>

namespace gpuactors {

/// Returns the folder where the control daemon of MPS keeps its files: CUDA_MPS_PIPE_DIRECTORY of this process, or
/// MPS's own default.
[[nodiscard]] std::filesystem::path mps_folder();

/// Returns whether a control daemon keeps its files in `folder`. A daemon that has ended may have left them behind;
/// MPS's variables then have no effect. A running daemon need not be visible to this process.
[[nodiscard]] bool mps_runs(const std::filesystem::path& folder);

} // namespace gpuactors

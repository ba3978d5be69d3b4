// CUDA MPS, by which processes use a GPU at the same time: whether it runs.
#pragma once

#include <filesystem>

namespace gpuactors {

/// Where the control daemon of MPS keeps its files: CUDA_MPS_PIPE_DIRECTORY of this process, or MPS's own default.
[[nodiscard]] std::filesystem::path mps_folder();

/// Whether a control daemon keeps its files there. One that has ended may have left them: then nobody heeds MPS's
/// variables. It need not be a process that this one can see.
[[nodiscard]] bool mps_runs(const std::filesystem::path& folder);

} // namespace gpuactors

// Where MPS keeps its files, and whether they are there.
#include <gpuactors/device/mps.hpp>

#include <cstdlib>
#include <system_error>

namespace gpuactors {

std::filesystem::path mps_folder() {
  const char* set = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return set != nullptr && *set != '\0' ? set : "/tmp/nvidia-mps";
}

bool mps_runs(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "control", error);
}

} // namespace gpuactors

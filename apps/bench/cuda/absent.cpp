// Where the CUDA toolkit was not there when this was built.
#include "rows.hpp"

namespace gpuactors::bench {

bool has_bare_cuda_benchmarks() {
  return false;
}

std::function<void()> make_bare_task(const std::shared_ptr<Device>&, Share, std::int64_t) {
  return {};
}

std::vector<Benchmark> bare_cuda_benchmarks(bool) {
  return {};
}

} // namespace gpuactors::bench

// What measurements of actors on a CUDA device share.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/wrappers.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace gpuactors::gpu {

using google::protobuf::DoubleValue;
using google::protobuf::Empty;

inline constexpr int no_gpu = 77;

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Ends the program: nothing can be measured.
template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "gpu_actors: {}\n", to_string(result.error()));
    std::exit(1);
  }
  return std::move(*result);
}

template <class F>
double median_us(int count, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto start = now_us();
    f();
    times.push_back(now_us() - start);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Whether messages of one actor overlap what they copy and compute. @returns the exit code.
int measure_overlap(bool smoke);

} // namespace gpuactors::gpu

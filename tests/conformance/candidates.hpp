// The devices that the conformance suite runs on.
#pragma once

#include <gpuactors/device/context.hpp>

#include <support/catch.hpp>

#include <string>
#include <vector>

namespace gpuactors::conformance {

struct Candidate {
  std::string name;
  std::shared_ptr<Device> device;
};

/// All that there are here; what is missing is printed once, with the reason.
const std::vector<Candidate>& candidates();

/// Lets a fake CUDA driver find this program's kernels; nothing happens with the real one.
void show_kernels_to_fake_driver();

/// Memory of a context that a test opens, unless it says otherwise.
inline constexpr std::uint64_t test_memory = std::uint64_t{64} << 20;

/// Launches each kernel that waits for another one, or that one waits for, with nothing to wait for: CUDA loads a
/// kernel at its first launch, and may wait for all that is queued then. Once a device; `open` does it. What opens
/// later has them from the start: the context that they are launched in here is gone by then.
void load_kernels(const Candidate& candidate);

/// A context on half a device.
std::unique_ptr<Context> open(const Candidate& candidate, std::uint64_t memory_bytes = test_memory,
                              std::string holder = "test");

/// `count` values between -1 and 1 that look random and are the same each time.
template <class T>
std::vector<T> values(std::size_t count, std::uint64_t seed) {
  std::vector<T> result(count);
  auto state = seed * 2654435761U + 12345;
  for (auto& value : result) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<T>(static_cast<double>(state >> 40) / static_cast<double>(1U << 23) - 1.0);
  }
  return result;
}

} // namespace gpuactors::conformance

/// Runs the block that follows once for each device, as a section of its own.
#define FOR_EACH_DEVICE(candidate)                                                                                     \
  for (const auto& candidate : ::gpuactors::conformance::candidates())                                                 \
  DYNAMIC_SECTION("on " << candidate.name)

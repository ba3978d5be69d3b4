// What holds a process to its lease under MPS.
#include <gpuactors/agent/core/mps.hpp>
#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <cstdlib>
#include <fstream>

using namespace gpuactors;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

v1::Device device(int index, const std::string& kind = "cuda") {
  v1::Device result;
  result.set_index(index);
  result.set_kind(kind);
  return result;
}

v1::Lease lease_of(int index, std::int64_t share_units, std::uint64_t memory_bytes) {
  v1::Lease lease;
  auto& granted = *lease.add_devices();
  granted.set_index(index);
  granted.set_share_units(share_units);
  granted.set_memory_bytes(memory_bytes);
  return lease;
}

/// "PERCENTAGE, MEMORY" of a lease on device 3, "-" for a variable that is removed.
std::string limits_of(std::int64_t share_units, std::uint64_t memory_bytes) {
  const auto variables = mps_environment(lease_of(3, share_units, memory_bytes), {device(3)});
  REQUIRE(variables.size() == 3);
  // Processes share the hardware queues.
  CHECK_FALSE(variables.at("CUDA_DEVICE_MAX_CONNECTIONS"));
  return variables.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").value_or("-") + ", "
         + variables.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").value_or("-");
}

} // namespace

TEST_CASE("a part of a GPU is a percentage and a limit of memory, by the number that the process sees", "[agent]") {
  REQUIRE(limits::mps_headroom_bytes == 320 * mib);
  CHECK(limits_of(5000, 1024 * mib) == "50, 0=1344M");
  CHECK(limits_of(10, mib) == "1, 0=321M");
  // Rounded down, so that all leases together are no more than the device; memory is rounded up.
  CHECK(limits_of(1299, 1024 * mib + 1) == "12, 0=1345M");
  CHECK(limits_of(9999, 0) == "99, 0=320M");
}

TEST_CASE("whole GPUs have no limits, whatever the node was started with", "[agent]") {
  CHECK(limits_of(10'000, 1024 * mib) == "-, -");
  auto lease = lease_of(0, 10'000, mib);
  *lease.add_devices() = lease_of(2, 10'000, mib).devices(0);
  const auto variables = mps_environment(lease, {device(0), device(2)});
  CHECK(variables.size() == 3);
  for (const auto& [name, value] : variables)
    CHECK_FALSE(value);
}

TEST_CASE("what is no GPU has no limits of MPS", "[agent]") {
  const auto variables = mps_environment(lease_of(0, 5000, mib), {device(0, "host")});
  CHECK_FALSE(variables.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
  CHECK_FALSE(variables.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  CHECK_FALSE(mps_environment({}, {}).at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
}

TEST_CASE("MPS runs where its control daemon has its files", "[agent]") {
  const test::TemporaryFolder folder;
  CHECK_FALSE(mps_runs(folder.path()));
  CHECK_FALSE(mps_runs(folder / "none"));
  std::ofstream{folder / "control"} << "";
  CHECK(mps_runs(folder.path()));
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", folder.path().c_str(), 1);
  CHECK(mps_folder() == folder.path());
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", "", 1);
  CHECK(mps_folder() == "/tmp/nvidia-mps");
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  CHECK(mps_folder() == "/tmp/nvidia-mps");
}

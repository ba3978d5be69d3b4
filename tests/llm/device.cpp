#include "device.hpp"

#include <gpuactors/device/discovery.hpp>

#include <support/results.hpp>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace llm::test {

using gpuactors::test::must;

std::unique_ptr<gpuactors::Context> open_device() {
  const char* named = std::getenv("GPUACTORS_TEST_DEVICES");
  const auto specs = must(gpuactors::parse_device_specs(named != nullptr ? named : "host:1x256MiB"));
  const auto devices = must(gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  show_kernels_to_fake_driver();
  return must(
      gpuactors::Context::open(devices.at(0), {gpuactors::Share::whole(1), std::uint64_t{256} << 20, "test", nullptr}));
}

std::filesystem::path folder_of(const std::string& model) {
  const char* elsewhere = std::getenv("LLM_TEST_DATA");
  return std::filesystem::path{elsewhere != nullptr ? elsewhere : LLM_TEST_DATA} / model;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream input{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{input}, {}};
}

} // namespace llm::test

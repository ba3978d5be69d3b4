// serve_make_checkpoint: writes the checkpoint of a network with random parameters, for tests of the program.
#include <gpuactors/device/discovery.hpp>

#include <apps/nn/checkpoint.hpp>
#include <apps/nn/network.hpp>

#include <cstdlib>
#include <iostream>
#include <string>

namespace {

gpuactors::Result<void> write(const std::string& path, std::uint64_t seed, std::vector<std::int64_t> sizes) {
  GPUACTORS_LET(specs, gpuactors::parse_device_specs("host:1"));
  GPUACTORS_LET(devices, gpuactors::make_devices(specs, gpuactors::discovery_options("test")));
  GPUACTORS_LET(context, gpuactors::Context::open(devices.front(), {}));
  nn::NetworkSpec spec;
  spec.sizes = std::move(sizes);
  GPUACTORS_LET(network, nn::Network::make(context->stream(), spec, seed));
  return nn::save_network(path, network);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: serve_make_checkpoint FILE SEED INPUTS [HIDDEN...] OUTPUTS\n";
    return EXIT_FAILURE;
  }
  std::vector<std::int64_t> sizes;
  for (int i = 3; i < argc; ++i)
    sizes.push_back(std::stoll(argv[i]));
  if (const auto written = write(argv[1], std::stoull(argv[2]), std::move(sizes)); !written) {
    std::cerr << to_string(written.error()) << "\n";
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

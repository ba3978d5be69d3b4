// Makes a detached placement group in a running cluster, and prints its id: make_group NAME GPUS... --broker HOST:PORT
#include <gpuactors/gpuactors.hpp>

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  using namespace gpuactors;
  auto cluster = Cluster::open(argc, argv);
  if (!cluster) {
    std::cerr << to_string(cluster.error()) << std::endl;
    return 1;
  }
  std::vector<Options> bundles;
  for (int i = 2; i < argc && !std::string_view{argv[i]}.starts_with("--"); ++i) {
    Options bundle;
    bundle.gpus = std::strtod(argv[i], nullptr);
    bundles.push_back(std::move(bundle));
  }
  GroupOptions options;
  options.name = argv[1];
  options.detached = true;
  auto group = cluster->create_group(bundles, options);
  if (!group) {
    std::cerr << to_string(group.error()) << std::endl;
    return 1;
  }
  std::cout << group->id.value() << std::endl;
  return 0;
}

// Starts a counter without a name in a running cluster, and prints its id: make_actor --broker HOST:PORT
#include <gpuactors/gpuactors.hpp>

#include <iostream>

int main(int argc, char** argv) {
  using namespace gpuactors;
  auto cluster = Cluster::open(argc, argv);
  if (!cluster) {
    std::cerr << to_string(cluster.error()) << std::endl;
    return 1;
  }
  const auto actor = cluster->spawn("counter", google::protobuf::Empty{}, {.detached = true});
  if (!actor) {
    std::cerr << to_string(actor.error()) << std::endl;
    return 1;
  }
  std::cout << actor->id().value() << std::endl;
  return 0;
}

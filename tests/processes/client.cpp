#include "client.hpp"

#include "fixture.hpp"

#include <cstdio>

namespace gpuactors::test {

Result<Cluster> connect_quickly(const std::string& broker, const std::string& certificates,
                                std::chrono::milliseconds link) {
  ConnectOptions options;
  options.broker = broker;
  options.certificates = certificates;
  options.heartbeat = std::chrono::milliseconds{200};
  options.link_timeout = link;
  return Cluster::connect(std::move(options));
}

int run_client(int argc, char** argv) {
  if (argc != 4)
    return 2;
  auto cluster = connect_quickly(argv[2], argv[3], Processes::link_timeout);
  if (!cluster) {
    std::fprintf(stderr, "%s\n", cluster.error().message().c_str());
    return 1;
  }
  std::vector<ActorRef> actors;
  while (true) {
    // Those that were lost, with a connection or with a node, are replaced.
    std::erase_if(actors, [](const ActorRef& actor) {
      const auto sum = actor.call<Number>("add", number(1), std::chrono::seconds{5}).get();
      return !sum && sum.error().code() == Errc::actor_died;
    });
    while (actors.size() < 2) {
      auto actor = cluster->spawn("counter", number(0), {.gpus = 0.05, .queue_timeout = std::chrono::seconds{5}});
      if (!actor)
        break;
      actors.push_back(std::move(*actor));
    }
    Options small;
    small.gpus = 0.05;
    small.deadline = std::chrono::seconds{5};
    static_cast<void>(cluster->submit<Number>("nap", number(0.001), small).get());
  }
}

} // namespace gpuactors::test

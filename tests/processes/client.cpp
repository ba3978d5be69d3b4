#include "client.hpp"

#include "fixture.hpp"

#include <gpuactors/cluster/local_cluster.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace gpuactors::test {

Result<Cluster> connect_quickly(const std::string& broker, const std::string& certificates,
                                std::chrono::milliseconds link, Duration reconnect_grace) {
  ConnectOptions options;
  options.broker = broker;
  options.certificates = certificates;
  options.heartbeat = std::chrono::milliseconds{200};
  options.link_timeout = link;
  options.reconnect_grace = reconnect_grace;
  return Cluster::connect(options);
}

int run_client(int argc, char** argv) {
  if (argc != 5)
    return 2;
  auto cluster = connect_quickly(argv[2], argv[3], std::chrono::milliseconds{std::atoi(argv[4])});
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

int run_guest(int argc, char** argv) {
  if (argc != 6)
    return 2;
  // Before there are other threads, which go by it.
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  auto cluster = connect_quickly(argv[2], argv[3], std::chrono::milliseconds{std::atoi(argv[4])},
                                 std::chrono::seconds{std::atoi(argv[5])});
  if (!cluster) {
    std::fprintf(stderr, "%s\n", cluster.error().message().c_str());
    return 1;
  }
  const auto actor = cluster->spawn("counter", number(0), {.name = "guest"});
  if (!actor) {
    std::fprintf(stderr, "%s\n", actor.error().message().c_str());
    return 1;
  }
  int received = 0;
  sigwait(&awaited, &received);
  const bool answers =
      eventually([&] { return actor->call<Number>("add", number(1), std::chrono::seconds{5}).get().has_value(); });
  cluster->close();
  return answers ? 0 : 1;
}

int run_reader(int argc, char** argv) {
  if (argc != 7)
    return 2;
  auto cluster = connect_quickly(argv[2], argv[3], std::chrono::milliseconds{std::atoi(argv[4])});
  const auto actor = cluster ? cluster->find(argv[5]) : fail(cluster.error());
  if (!actor) {
    std::fprintf(stderr, "%s\n", actor.error().message().c_str());
    return 1;
  }
  auto stream = actor->stream<Number>(argv[6], number(1e9));
  if (!stream.next())
    return 1;
  std::fprintf(stderr, "it reads\n");
  for (;;)
    pause();
}

int run_local() {
  auto local = LocalCluster::start({.nodes = {{.devices = "host:1x64MiB"}, {.devices = "host:1x64MiB"}}});
  if (!local)
    return 1;
  std::printf("%s\n", std::filesystem::path{local->certificates()}.parent_path().c_str());
  for (const auto& node : local->nodes())
    if (!local->cluster().spawn("counter", number(0), {.gpus = 1, .node = node}))
      return 1;
  for (const auto& name : {"broker", "n0", "n1"})
    for (const auto pid : value_or_throw(local->pids(name)))
      std::printf("%d\n", pid);
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;)
    pause();
}

int run_misuse(const std::string& how, int argc) {
  if (how == "leaves" && argc > 1)
    return 3;
  const char* const other = "program";
  if (how != "never")
    static_cast<void>(run_if_worker(1, &other));
  const auto local = LocalCluster::start();
  std::printf("%s\n", local ? "it started" : to_string(local.error()).c_str());
  return 0;
}

} // namespace gpuactors::test

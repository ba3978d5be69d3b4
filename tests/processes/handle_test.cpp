// References to actors in messages between processes.
#include "fixture.hpp"

#include <support/catch.hpp>

#include <csignal>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

TEST_CASE("a reference leads from any process to an actor without a name, in whichever life it is", "[processes]") {
  Processes processes;
  processes.start_broker();
  processes.start_node("n0", "host:1x64MiB");
  auto cluster = processes.connect();
  const auto target = must(cluster.spawn("counter", number(0), {.gpus = 1, .max_restarts = 5}));
  processes.start_node("n1", "host:1x64MiB");
  const auto caller = must(cluster.spawn("counter", number(0), {.gpus = 1}));
  REQUIRE(caller.info().lease().node() == "n1");

  // From an actor to one of another node, by the reference that the other has to itself.
  const auto peers = must(target.call<Peers>("me").get(20s));
  CHECK(peers.actors(0).SerializeAsString() == target.to_message().SerializeAsString());
  CHECK(must(caller.call<Number>("add_at_peers", peers).get(20s)).value() == 1);
  // From another client.
  auto other = processes.connect();
  const auto found = must(other.find(peers.actors(0)));
  CHECK(must(found.call<Number>("add", number(1)).get(20s)).value() == 2);

  // In its next life.
  Processes::signal(pid_of(target), SIGKILL);
  CHECK(eventually([&] { return caller.call<Number>("add_at_peers", peers).get(20s).has_value(); }));
  CHECK(must(must(other.find(peers.actors(0))).call<Number>("restarts").get(20s)).value() == 1);

  // At a broker that knows nothing but what its nodes tell.
  processes.signal("broker", SIGKILL);
  processes.start_broker();
  CHECK(must(other.find(peers.actors(0))).id() == target.id());
  CHECK(must(caller.call<Number>("add_at_peers", peers).get(20s)).value() >= 1);

  must(cluster.kill(target));
  const auto gone = other.find(peers.actors(0));
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code() == Errc::not_found);
  CHECK(gone.error().message().find("(counter) has ended: it was killed") != std::string::npos);
}

TEST_CASE("a reference from another cluster leads nowhere", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto embedded = must(Cluster::embed());
  const auto here = must(cluster.spawn("counter", number(0)));
  const auto there = must(embedded.spawn("counter", number(0)));
  for (const auto& found : {cluster.find(there.to_message()), embedded.find(here.to_message())}) {
    REQUIRE_FALSE(found);
    CHECK(found.error().code() == Errc::not_found);
    CHECK(found.error().message().find("another cluster") != std::string::npos);
  }
}

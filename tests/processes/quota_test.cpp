// Quotas of clients by their certificates, in a cluster of processes: who waits, who does not, and what a broker that
// starts again knows of it.
#include "fixture.hpp"

#include <algorithm>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// A client of this name.
Cluster connect_as(const Processes& processes, const std::filesystem::path& certificates) {
  ConnectOptions options;
  options.broker = processes.broker();
  options.certificates = certificates.string();
  options.timeout = 60s;
  options.heartbeat = 200ms;
  options.link_timeout = Processes::patience;
  return must(Cluster::connect(options));
}

/// Why the first request in the queue waits.
std::string why_waiting(Cluster& cluster) {
  const auto state = must(cluster.state());
  return state.queue_size() > 0 ? state.queue(0).reason() : std::string{};
}

/// "held of quota", in units.
std::string quota_of(Cluster& cluster, const std::string& owner) {
  const auto state = must(cluster.state());
  for (const auto& quota : state.quotas())
    if (quota.owner() == owner)
      return std::to_string(quota.used_units()) + " of " + std::to_string(quota.gpu_units());
  return "none";
}

} // namespace

TEST_CASE("a client waits for its own quota while another is served, also over the broker's death",
          "[processes][quota]") {
  const TemporaryFolder folder;
  Processes processes;
  const CertificateFolder authority{processes.certificates()};
  must(authority.init(10));
  for (const auto* name : {"alice", "bob"})
    must(authority.issue({name, {}, {}, CertificateRole::client}, folder / name));
  const auto store = (folder / "state.db").string();
  processes.start_broker({"--store", store, "--quota", "alice=0.75", "--quota", "*=1.5"});
  processes.start_node("n0", "host:2x64MiB");
  auto admin = processes.connect();
  auto alice = connect_as(processes, folder / "alice");
  auto bob = connect_as(processes, folder / "bob");

  auto hers = must(alice.spawn("counter", number(1), {.gpus = 0.5, .name = "hers", .detached = true}));
  auto waiting =
      alice.spawn_async("counter", number(2), {.gpus = 0.5, .name = "second", .max_restarts = 3, .detached = true});
  const std::string reason = "the quota of \"alice\" is 0.75 devices, it holds 0.5, and this is for 0.5 more";
  CHECK(eventually([&] { return why_waiting(admin) == reason; }));
  // Nobody stands behind it: neither another, nor what of hers still has room, nor who administers.
  auto his = must(bob.spawn("counter", number(3), {.gpus = 0.5, .name = "his"}));
  CHECK(must(alice.submit<Number>("pid", {}, {.gpus = 0.25}).get(20s)).value() > 0);
  auto large = must(admin.spawn("counter", number(3), {.gpus = 1}));
  must(admin.kill(large));
  const auto beyond = alice.spawn("counter", number(4), {.gpus = 1});
  REQUIRE(code_of(beyond) == Errc::infeasible);
  CHECK(says(beyond.error(), "the quota of \"alice\" is 0.75 devices, and this is for 1"));
  CHECK(code_of(bob.spawn("counter", number(4), {.gpus = 2})) == Errc::infeasible);
  // Quotas are not for clients to change, nor can they hide behind another name.
  CHECK(code_of(alice.set_quota("alice", 2)) == Errc::permission_denied);
  CHECK(code_of(alice.remove_quota("alice")) == Errc::permission_denied);
  CHECK(quota_of(admin, "bob") == "5000 of 15000");

  // What a task or actor of hers asks for counts as hers, though its process has a node's certificate: also beside it.
  must(hers.call<Number>("spawn", text("child")).get(20s));
  const auto state = must(admin.state());
  for (const auto& lease : state.leases())
    if (lease.name() == "child")
      CHECK(lease.quota_owner() == "alice");

  processes.signal("broker", SIGKILL);
  processes.start_broker({"--store", store});
  CHECK(eventually([&] { return event_of(admin, "adopted", "hers").has_value(); }));
  CHECK(eventually([&] { return quota_of(admin, "alice") == "5000 of 7500"; }));
  CHECK(eventually([&] { return why_waiting(admin) == reason; }));
  CHECK(must(hers.call<Number>("add", number(1)).get(20s)).value() == 2);
  must(admin.set_quota("alice", 1));
  CHECK(must(waiting.get(20s)).call<Number>("add", number(1)).get(20s).has_value());
  CHECK(quota_of(admin, "alice") == "10000 of 10000");
  must(admin.remove_quota("alice"));
  CHECK(quota_of(admin, "alice") == "10000 of 15000");
  CHECK(code_of(admin.remove_quota("alice")) == Errc::not_found);
}

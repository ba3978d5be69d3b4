// Real processes that use more host memory than they asked for, or than their node offers.
#include "fixture.hpp"

#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/cluster/local_cluster.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t one_mib = 1U << 20;

/// So many MiB that are really there.
std::vector<char> filled(double size_mib) {
  return std::vector<char>(static_cast<std::size_t>(size_mib) * one_mib, 'x');
}

/// Takes memory and keeps it.
class Hoarder : public Actor {
public:
  Hoarder(Init init, const Number& first_mib) : Actor(std::move(init)) {
    kept_.push_back(filled(first_mib.value()));
  }

  Number take(const Number& more_mib) {
    kept_.push_back(filled(more_mib.value()));
    return number(::getpid());
  }

  /// Keeps a shared tensor of so many MiB.
  Result<Number> share(const Number& tensor_mib) {
    GPUACTORS_LET(draft,
                  Cluster::from(*this).draft(DType::u8, {static_cast<std::int64_t>(tensor_mib.value() * one_mib)}));
    std::fill(draft.bytes().begin(), draft.bytes().end(), std::byte{1});
    shared_.push_back(std::move(draft).share());
    return number(::getpid());
  }

  /// Takes it, and does not return.
  Number take_and_stay(const Number& more_mib) {
    take(more_mib);
    for (;;)
      ::pause();
  }

  /// The same, but in a later life it returns which one that is.
  Number take_and_stay_once(const Number& more_mib) {
    return Actor::restarts() == 0 ? take_and_stay(more_mib) : number(Actor::restarts());
  }

  Number restarts(const google::protobuf::Empty&) {
    return number(Actor::restarts());
  }

  Number asked_mib(const google::protobuf::Empty&) {
    return number(static_cast<double>(lease().host_memory_bytes / one_mib));
  }

  /// How ready the kernel is to end this process.
  Text victim(const google::protobuf::Empty&) {
    std::string value;
    std::ifstream{"/proc/self/oom_score_adj"} >> value;
    return text(value);
  }

private:
  std::vector<std::vector<char>> kept_;
  std::vector<Shared<Tensor>> shared_;
};

/// Makes the file and takes 300 MiB for good, or finds the file and is done.
Number hoard_once(TaskContext&, const Text& path) {
  if (std::filesystem::exists(path.text()))
    return number(2);
  std::ofstream{path.text()}.close();
  const auto kept = filled(300);
  for (;;)
    ::pause();
}

/// A process of its own that may have so much.
Options apart(std::uint64_t memory_mib, int restarts = 0) {
  Options options{.host_memory_bytes = memory_mib * one_mib, .max_restarts = restarts};
  options.isolation = Isolation::process;
  return options;
}

Cluster with_memory(Processes& processes, const std::string& host_memory, std::vector<std::string> more = {}) {
  processes.start_broker();
  more.insert(more.begin(), {"--host-memory", host_memory});
  processes.start_node("n0", "host:2x1MiB", std::move(more));
  return processes.connect();
}

void check_died(const Result<Number>& result, const std::vector<std::string>& words) {
  REQUIRE_FALSE(result);
  CHECK(result.error().code() == Errc::worker_died);
  INFO(result.error().message());
  for (const auto& word : words)
    CHECK(result.error().message().find(word) != std::string::npos);
}

} // namespace

GPUACTORS_ACTOR("hoarder", Hoarder, Number)
    .method("take", &Hoarder::take)
    .method("share", &Hoarder::share)
    .method("take_and_stay", &Hoarder::take_and_stay)
    .method("take_and_stay_once", &Hoarder::take_and_stay_once)
    .method("restarts", &Hoarder::restarts)
    .method("asked_mib", &Hoarder::asked_mib)
    .method("victim", &Hoarder::victim);
GPUACTORS_TASK("hoard_once", hoard_once);

TEST_CASE("a process of its own is held to the host memory that it asked for, and lives again", "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "2GiB");
  auto options = apart(300, 1);
  options.name = "greedy";
  auto actor = must(cluster.spawn("hoarder", number(0), options));
  auto other = must(cluster.spawn("hoarder", number(400), {.gpus = 0.1}));
  CHECK(must(actor.call<Number>("asked_mib").get()).value() == 300);
  const auto pid = must(actor.call<Number>("take", number(100)).get()).value();
  // A caller whose method never returns is told why, too.
  check_died(actor.call<Number>("take_and_stay", number(300), Duration::max()).get(60s),
             {"the process of \"greedy\" on node n0 used ", "of host memory, without what it shares",
              "and had asked for 300 MiB: its process was ended", "host_memory_bytes, --host-memory"});
  CHECK(eventually([&] { // calls that come before its process is gone fail with that
    const auto restarts = actor.call<Number>("restarts", {}, 60s).get();
    return restarts && restarts->value() == 1;
  }));
  CHECK(must(actor.call<Number>("take", number(100)).get()).value() != pid);
  const auto event = event_of(cluster, "out_of_memory", "greedy");
  REQUIRE(event);
  CHECK(event->reason().find("had asked for 300 MiB") != std::string::npos);
  CHECK(event->lease().node() == "n0");
  CHECK(must(cluster.state()).counters().at("out_of_memory") == 1);
  CHECK(event_of(cluster, "restarting")->reason().find("had asked for 300 MiB") != std::string::npos);
  CHECK(must(other.call<Number>("restarts").get()).value() == 0);
  // The second time there is no restart left.
  check_died(actor.call<Number>("take_and_stay", number(300), Duration::max()).get(60s), {"had asked for 300 MiB"});
  CHECK(eventually([&] { return event_of(cluster, "died", "greedy").has_value(); }));
  CHECK(event_of(cluster, "died", "greedy")->reason().find("had asked for 300 MiB") != std::string::npos);
}

TEST_CASE("shared tensors are not what a process is held to by host memory", "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "600MiB");
  auto sharing = must(cluster.spawn("hoarder", number(0), apart(150)));
  must(sharing.call<Number>("share", number(300)).get());
  // When this one is ended, the node has looked at both.
  auto greedy = must(cluster.spawn("hoarder", number(0), apart(150)));
  check_died(greedy.call<Number>("take_and_stay", number(200), Duration::max()).get(60s), {"had asked for 150 MiB"});
  CHECK(must(sharing.call<Number>("restarts").get()).value() == 0);
}

TEST_CASE("workers that use more together than their node offers lose the one that asked for least of what it uses",
          "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "600MiB");
  auto honest = must(cluster.spawn("hoarder", number(250), {.gpus = 1, .host_memory_bytes = 400 * one_mib}));
  auto greedy = must(cluster.spawn("hoarder", number(0), {.gpus = 1}));
  check_died(greedy.call<Number>("take_and_stay", number(400), Duration::max()).get(60s),
             {"the workers of node n0 use ",
              " together, and it offers 600 MiB and has 2 MiB of host devices: the worker for device 1 used ",
              "what runs in it has asked for none and has 1 MiB of host devices"});
  CHECK(must(honest.call<Number>("restarts").get()).value() == 0);
  // What the node says comes by another way than what the caller gets.
  CHECK(eventually([&] { return processes.count("the workers of node n0 use") == 1; }));
  CHECK(eventually([&] { return must(cluster.state()).leases_size() == 1; }));
}

TEST_CASE("a task that was ended for its memory is run again if it has retries left", "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "2GiB");
  const TemporaryFolder folder;
  auto options = apart(200);
  check_died(cluster.submit<Number>("hoard_once", text(folder / "once"), options).get(60s), {"had asked for 200 MiB"});
  options.max_retries = 1;
  CHECK(must(cluster.submit<Number>("hoard_once", text(folder / "again"), options).get(60s)).value() == 2);
}

TEST_CASE("a call that was interrupted for memory is made again in the actor's next life", "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "2GiB");
  auto options = apart(200, 1);
  options.max_task_retries = 1;
  auto actor = must(cluster.spawn("hoarder", number(0), options));
  CHECK(must(actor.call<Number>("take_and_stay_once", number(300), Duration::max()).get(60s)).value() == 1);
}

TEST_CASE("on a machine that is fuller than the threshold a worker is ended", "[processes]") {
  const auto part = MemoryReader{}.limit_bytes() / 100 / one_mib + 64;
  if (part > 600)
    return; // a hundredth of this machine's memory is too much for a test
  Processes processes;
  auto cluster = with_memory(processes, "none", {"--memory-threshold", "0.001"});
  auto actor = must(cluster.spawn("hoarder", number(0)));
  check_died(actor.call<Number>("take_and_stay", number(static_cast<double>(part)), Duration::max()).get(60s),
             {"node n0 ends a worker when more than 0.1 % of memory is in use (--memory-threshold)",
              " of memory in use: the worker for no device used "});
}

TEST_CASE("the kernel takes workers first when there is no memory", "[processes]") {
  Processes processes;
  auto cluster = processes.up();
  auto actor = must(cluster.spawn("hoarder", number(0)));
  CHECK(must(actor.call<Text>("victim").get()).text() == "1000");
  for (const auto* name : {"broker", "n0"}) {
    int value = 1000;
    std::ifstream{"/proc/" + std::to_string(processes.pids(name).front()) + "/oom_score_adj"} >> value;
    CHECK(value < 1000);
  }
}

TEST_CASE("the nodes of a local cluster offer the host memory that they are told to", "[processes]") {
  LocalClusterOptions options;
  options.nodes = {{.name = "a", .devices = "host:1x64MiB", .host_memory_bytes = 500 * one_mib, .memory_threshold = 0},
                   {.name = "b", .devices = "host:1x64MiB", .host_memory_bytes = 0},
                   {.name = "c", .devices = "host:1x64MiB"}};
  options.on_line = nullptr;
  auto local = must(LocalCluster::start(std::move(options)));
  std::map<std::string, std::uint64_t> offered;
  const auto state = must(local.cluster().state());
  for (const auto& node : state.nodes())
    offered[node.node().name()] = node.free_host_memory_bytes();
  CHECK(offered
        == std::map<std::string, std::uint64_t>{{"a", 500 * one_mib}, {"b", 0}, {"c", MemoryReader{}.limit_bytes()}});
  const auto wrong = local.add_node({.name = "d", .devices = "host:1x64MiB", .memory_threshold = 1.5});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message().find("the memory threshold is 1.5: a part from 0 to 1 is expected")
        != std::string::npos);
}

TEST_CASE("host memory is granted as long as there is some, and refused with the sizes", "[processes]") {
  Processes processes;
  auto cluster = with_memory(processes, "1GiB");
  auto first = must(cluster.spawn("hoarder", number(0), {.host_memory_bytes = 600 * one_mib}));
  const auto never = cluster.spawn("hoarder", number(0), {.host_memory_bytes = 2'000 * one_mib});
  REQUIRE_FALSE(never);
  CHECK(never.error().code() == Errc::infeasible);
  CHECK(never.error().message().find("2097152000 bytes (1.95 GiB) of host memory: node n0 has 1073741824 bytes (1 GiB)")
        != std::string::npos);
  auto second = cluster.spawn_async("hoarder", number(0), {.host_memory_bytes = 500 * one_mib});
  CHECK(eventually([&] {
    const auto state = must(cluster.state());
    return state.queue_size() == 1
           && state.queue(0).reason().find("524288000 bytes (500 MiB) of host memory free: node n0 has 444596224 bytes "
                                           "(424 MiB)")
                  != std::string::npos;
  }));
  must(cluster.kill(first));
  must(second.get(60s));
  const auto wrong = cluster.spawn("hoarder", number(0), {.resources = {{"host_memory", 1}}});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code() == Errc::invalid_argument);
  CHECK(wrong.error().message() == "\"host_memory\" is not a custom resource: use host_memory_bytes instead");
}

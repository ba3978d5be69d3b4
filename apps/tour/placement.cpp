// T4, T6, T10, T11, T12, T13: where tasks and actors land, and what is said when they cannot.
#include "programs.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

namespace tour {

using google::protobuf::Empty;
using gpuactors::ActorRef;
using gpuactors::Cluster;
using gpuactors::Errc;
using gpuactors::Future;
using gpuactors::Result;
using gpuactors::TaskContext;

namespace {

// -- what a user writes ---------------------------------------------------------------------------

/// Says where it is. `Base` decides what it owns.
template <class Base>
class Reporter : public Base {
public:
  using Base::Base;

  Place where(const Empty&) {
    return place_of(*this);
  }
};

using PlainReporter = Reporter<gpuactors::Actor>;
using WholeReporter = Reporter<gpuactors::GPUActor>;
using ShareReporter = Reporter<gpuactors::FractionalGPUActor>;

GPUACTORS_ACTOR("plain_reporter", PlainReporter).method("where", &PlainReporter::where);
GPUACTORS_ACTOR("whole_reporter", WholeReporter).method("where", &WholeReporter::where);
GPUACTORS_ACTOR("share_reporter", ShareReporter).method("where", &ShareReporter::where);

GPUACTORS_TASK("gpu_ids", [](TaskContext& ctx, const Empty&) { return place_of(ctx); });

// -- the programs ---------------------------------------------------------------------------------

constexpr auto patience = std::chrono::seconds{30};

std::string ids_of(const Place& place) {
  return fmt::format("{}", fmt::join(place.ids(), ","));
}

std::string text_of(const Result<Place>& result) {
  return result ? "device " + ids_of(*result) : gpuactors::to_string(result.error());
}

/// A node told to offer `extra` CUDA devices more than there are.
Result<void> use_absent_devices(Tour& tour) {
  const auto have = tour.machine().cuda_count();
  const auto offered = std::max<std::size_t>(4, have + 3);
  auto& row = tour.row(fmt::format("cuda*{} with {} there", offered, have));
  row.device = fmt::format("cuda 0-{}, share 1 each", offered - 1);
  GPUACTORS_LET(cluster, embed(fmt::format("cuda*{}", offered)));
  GPUACTORS_LET(state, cluster.state());
  row.check(static_cast<std::size_t>(state.devices_size()) == offered, "{} devices were expected, {} came", offered,
            state.devices_size());
  // Those that exist are taken first, so that what follows can only land on one that does not.
  std::vector<ActorRef> kept;
  for (std::size_t i = 0; i < have; ++i) {
    GPUACTORS_LET(actor, cluster.spawn("whole_reporter", Empty{}, {.gpus = 1}));
    kept.push_back(actor);
  }
  const auto absent = static_cast<double>(offered - have);
  for (const auto gpus : {1.0, absent}) {
    const auto text = text_of(cluster.submit<Place>("gpu_ids", Empty{}, {.gpus = gpus}).get(patience));
    row.check(text.starts_with("device_lost") && text.find("does not exist") != std::string::npos,
              "device_lost, saying which CUDA device does not exist, was expected for {} devices, {} came", gpus, text);
    row.result = text.substr(0, text.find(':', text.find("not exist")));
  }
  const auto too_many =
      cluster.submit<Place>("gpu_ids", Empty{}, {.gpus = static_cast<double>(offered + 1)}).get(patience);
  row.check(!too_many && too_many.error().code() == Errc::infeasible,
            "infeasible was expected for one device more than offered, {} came", text_of(too_many));
  // The cluster goes on.
  const auto after = cluster.submit<Place>("gpu_ids").get(patience);
  row.check(after.has_value(), "a task without a device was expected to run afterwards, {} came", text_of(after));
  return {};
}

/// Starts an actor and a task of one whole device each. @returns where they were.
Result<std::pair<Place, Place>> actor_and_task(Row& row, Cluster& cluster) {
  GPUACTORS_LET(actor, cluster.spawn("whole_reporter", Empty{}, {.gpus = 1}));
  auto task = cluster.submit<Place>("gpu_ids", Empty{}, {.gpus = 1});
  GPUACTORS_LET(of_actor, actor.call<Place>("where").get());
  GPUACTORS_LET(of_task, task.get());
  row.device = to_string(of_actor) + "; " + to_string(of_task);
  row.result = fmt::format("actor on {}, task on {}", ids_of(of_actor), ids_of(of_task));
  row.check(ids_of(of_actor) == "0", "the actor was expected on device 0, it is on {}", ids_of(of_actor));
  row.check(ids_of(of_task) == "1", "the task was expected on device 1, it was on {}", ids_of(of_task));
  return std::pair{of_actor, of_task};
}

/// The value of a variable in the process of `place`.
std::string variable(const Place& place, const std::string& name) {
  const auto found = place.environment().find(name);
  return found == place.environment().end() ? "(not set)" : found->second;
}

/// A process must see the CUDA device that it was granted, and no other: none when it has a host device.
void check_visible(Row& row, const Place& place, const gpuactors::v1::ClusterState& state) {
  std::string expected;
  for (const auto& device : state.devices())
    if (device.device().kind() == "cuda" && ids_of(place) == std::to_string(device.device().index()))
      expected = device.device().uuid();
  const auto seen = variable(place, "CUDA_VISIBLE_DEVICES");
  row.check(seen == expected, "CUDA_VISIBLE_DEVICES=\"{}\" was expected with device {}, \"{}\" came", expected,
            ids_of(place), seen);
  row.result += fmt::format(", \"{}\"", seen);
}

Result<void> see_own_devices(Tour& tour) {
  auto& row = tour.row("the same in a cluster of processes, CUDA_VISIBLE_DEVICES of each");
  GPUACTORS_LET(processes, start_processes({.devices = tour.machine().exactly(2)}));
  GPUACTORS_LET(places, actor_and_task(row, processes.cluster()));
  GPUACTORS_LET(state, processes.cluster().state());
  check_visible(row, places.first, state);
  check_visible(row, places.second, state);
  const std::set<std::uint32_t> pids{static_cast<std::uint32_t>(getpid()), places.first.pid(), places.second.pid()};
  row.check(pids.size() == 3, "different processes of tour, actor and task were expected, {} came",
            fmt::join(pids, ", "));
  return {};
}

/// Notes which core the process of `place` sees; it must be `expected`.
void check_core(Row& row, const char* who, const Place& place, std::string_view expected) {
  const auto seen = variable(place, "NEURON_RT_VISIBLE_CORES");
  row.check(seen == expected, "NEURON_RT_VISIBLE_CORES={} was expected in {}, {} came", expected, who, seen);
  row.check(place.pid() != static_cast<std::uint32_t>(getpid()), "a process of its own was expected for {}", who);
  row.result += fmt::format("{}{} sees {}", row.result.empty() ? "" : ", ", who, seen);
}

} // namespace

Result<void> run_t4(Tour& tour) {
  {
    GPUACTORS_LET(cluster, open(tour.machine().exactly(2)));
    GPUACTORS_TRY(actor_and_task(tour.row("actor and task, one device each"), cluster));
  }
  return see_own_devices(tour);
}

Result<void> run_t6(Tour& tour) {
  GPUACTORS_LET(cluster, open(tour.machine().exactly(2)));
  auto& row = tour.row("three actors of 0.5");
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    GPUACTORS_LET(actor, cluster.spawn("share_reporter", Empty{}, {.gpus = 0.5}));
    GPUACTORS_LET(place, actor.call<Place>("where").get());
    row.device = fmt::format("{} 0 and 1, share {}", place.kind(), place.share());
    row.check(place.share() == 0.5, "a share of 0.5 was expected, {} came", place.share());
    ids.push_back(ids_of(place));
  }
  const auto landed = fmt::format("{}", fmt::join(ids, ", "));
  row.result = "on devices " + landed;
  row.check(landed == "0, 0, 1", "devices 0, 0, 1 were expected, {} came", landed);
  return {};
}

Result<void> run_t10(Tour& tour) {
  gpuactors::EmbedOptions options;
  for (const auto* spec : {"host:1@A100", "host:1@V100", "host:1"}) {
    gpuactors::EmbeddedNode node;
    node.name = fmt::format("node-{}", options.nodes.size());
    node.devices = spec;
    options.nodes.push_back(std::move(node));
  }
  GPUACTORS_LET(cluster, Cluster::embed(std::move(options)));
  auto& placed = tour.row("accelerator_type V100");
  GPUACTORS_LET(place, cluster.submit<Place>("gpu_ids", Empty{}, {.gpus = 1, .accelerator_type = "V100"}).get());
  placed.device = to_string(place);
  placed.result = "ran on " + place.node();
  placed.check(place.node() == "node-1", "node-1, the one with a V100, was expected, {} came", place.node());

  auto& refused = tour.row("accelerator_type H100, which no node has");
  refused.device = "none";
  const auto none = cluster.submit<Place>("gpu_ids", Empty{}, {.gpus = 1, .accelerator_type = "H100"}).get(patience);
  refused.result = text_of(none);
  refused.check(!none && none.error().code() == Errc::infeasible, "infeasible was expected, {} came", text_of(none));
  refused.check(refused.result.find("H100") != std::string::npos, "the constraint H100 was expected in: {}",
                refused.result);
  return {};
}

Result<void> run_t11(Tour& tour) {
  auto& row = tour.row("NEURON_RT_VISIBLE_CORES of two actors, and of a task beside an actor");
  row.device = "neuron_cores 0-1, one each";
  GPUACTORS_LET(processes, start_processes({.devices = "host:1", .resources = {{"neuron_cores", 2}}}));
  auto& cluster = processes.cluster();
  gpuactors::Options one_core;
  one_core.resources["neuron_cores"] = 1;
  GPUACTORS_LET(first, cluster.spawn("plain_reporter", Empty{}, one_core));
  GPUACTORS_LET(second, cluster.spawn("plain_reporter", Empty{}, one_core));
  GPUACTORS_LET(of_first, first.call<Place>("where").get());
  GPUACTORS_LET(of_second, second.call<Place>("where").get());
  check_core(row, "the first actor", of_first, "0");
  check_core(row, "the second", of_second, "1");
  row.check(of_first.pid() != of_second.pid(), "two processes were expected, both are {}", of_first.pid());
  // The task waits for a core; the one that it gets is the first actor's.
  auto waiting = cluster.submit<Place>("gpu_ids", Empty{}, one_core);
  GPUACTORS_TRY(cluster.kill(first));
  GPUACTORS_LET(of_task, waiting.get(patience));
  check_core(row, "a task after the first", of_task, "0");
  GPUACTORS_LET(without, cluster.submit<Place>("gpu_ids").get(patience));
  check_core(row, "a task that asked for none", without, "");
  return {};
}

namespace {

/// The second and the fourth GPU of so many, as far as they are there, else the first.
std::vector<std::size_t> some_of(std::size_t gpus) {
  std::vector<std::size_t> result;
  for (const std::size_t index : {1, 3})
    if (index < gpus)
      result.push_back(index);
  if (result.empty())
    result.push_back(0);
  return result;
}

/// A node that is shown these GPUs offers exactly them, and hands them on.
Result<void> show_some(Row& row, const std::vector<std::size_t>& shown) {
  const auto list = fmt::format("{}", fmt::join(shown, ","));
  GPUACTORS_LET(processes, start_processes({.devices = "cuda", .environment = {{"CUDA_VISIBLE_DEVICES", list}}}));
  GPUACTORS_LET(state, processes.cluster().state());
  std::vector<std::uint32_t> offered;
  std::vector<std::string> uuids;
  for (const auto& node : state.nodes())
    for (const auto& device : node.node().devices()) {
      offered.push_back(device.index());
      uuids.push_back(device.uuid());
    }
  const auto offers = fmt::format("{}", fmt::join(offered, ","));
  row.check(offers == list, "the node was expected to offer {}, it offers {}", list, offers);
  GPUACTORS_LET(
      place,
      processes.cluster().submit<Place>("gpu_ids", Empty{}, {.gpus = static_cast<double>(shown.size())}).get(patience));
  const auto seen = variable(place, "CUDA_VISIBLE_DEVICES");
  const auto wanted = fmt::format("{}", fmt::join(uuids, ","));
  row.result = "a task on all of them sees " + seen;
  row.check(ids_of(place) == list, "a task on {} was expected, it is on {}", list, ids_of(place));
  // One device may be shared: then the worker is one for all who use it.
  row.check(shown.size() == 1 || seen == wanted, "the task was expected to see {}, it sees {}", wanted, seen);
  return {};
}

} // namespace

Result<void> run_t12(Tour& tour) {
  auto& row = tour.row("a node with CUDA_VISIBLE_DEVICES, and what a task sees");
  const auto gpus = tour.machine().cuda_count();
  if (gpus > 0) {
    const auto shown = some_of(gpus);
    row.device = fmt::format("cuda {} of {}", fmt::join(shown, ","), gpus);
    return show_some(row, shown);
  }
  // Without a GPU: whoever was granted none is shown none, whatever the node is shown.
  row.device = "host 0; this machine has no GPU";
  GPUACTORS_LET(processes, start_processes({.devices = "host:1", .environment = {{"CUDA_VISIBLE_DEVICES", "1,3"}}}));
  GPUACTORS_LET(place, processes.cluster().submit<Place>("gpu_ids").get(patience));
  const auto seen = variable(place, "CUDA_VISIBLE_DEVICES");
  row.result = "a task that asked for none sees " + (seen.empty() ? std::string{"none"} : seen);
  row.check(seen.empty(), "no device was expected to be shown, {} came", seen);
  return {};
}

Result<void> run_t13(Tour& tour) {
  GPUACTORS_TRY(use_absent_devices(tour));
  auto& row = tour.row("host:4, four actors of one device");
  GPUACTORS_LET(cluster, embed("host:4"));
  std::set<std::string> ids;
  // Four actors hold the four devices; a fifth does not fit.
  for (int i = 0; i < 4; ++i) {
    GPUACTORS_LET(actor, cluster.spawn("whole_reporter", Empty{}, {.gpus = 1}));
    GPUACTORS_LET(place, actor.call<Place>("where").get());
    ids.insert(ids_of(place));
  }
  const auto landed = fmt::format("{}", fmt::join(ids, ","));
  row.device = "host 0-3, share 1 each";
  row.result = "actors on " + landed;
  row.check(landed == "0,1,2,3", "devices 0,1,2,3 were expected, {} came", landed);
  gpuactors::Options hurried{.gpus = 1};
  hurried.queue_timeout = std::chrono::milliseconds{50};
  const auto fifth = cluster.submit<Place>("gpu_ids", Empty{}, hurried).get();
  row.check(!fifth && fifth.error().code() == Errc::no_capacity, "no_capacity was expected for a fifth, {} came",
            text_of(fifth));
  return {};
}

} // namespace tour

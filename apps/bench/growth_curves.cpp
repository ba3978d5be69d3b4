#include "growth_curves.hpp"

#include "harness.hpp"
#include "ledger_bed.hpp"
#include "remote_cluster.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>

namespace gpuactors::bench {

namespace {

using google::protobuf::Empty;

constexpr double ns_in_a_microsecond = 1e3;

// -- bounds ---------------------------------------------------------------------------------------

/// Bytes of this machine that programs may still take.
double available_bytes() {
  std::ifstream file{"/proc/meminfo"};
  std::string word;
  while (file >> word)
    if (double kib = 0; word == "MemAvailable:" && file >> kib)
      return kib * 1024;
  return 0;
}

/// Goes through the sizes of a curve, shows how far it is, and stops before one that would take too long or too much.
class Steps {
public:
  Steps(std::string name, double last, bool quick)
    : name_(std::move(name)), last_(last), most_seconds_(quick ? 5 : 120), begun_(now_ns()), lap_(begun_) {
    // nop
  }

  /// Whether the next size, which is `factor` times the one before and takes so many bytes, is to be measured: its time
  /// may be as many times that of the last one, and all sizes of the curve together have a limit.
  bool allow(double size, double factor, double bytes) {
    const auto now = now_ns();
    const auto spent = (now - begun_) * 1e-9;
    const auto expected = (now - lap_) * 1e-9 * factor;
    lap_ = now;
    if (spent + expected > most_seconds_)
      return stop(size, fmt::format("the curve would take more than {} s in all", most_seconds_));
    if (bytes > available_bytes() / 2)
      return stop(size, "there is too little memory");
    fmt::print(stderr, "growth: {} {:.0f} of {:.0f}\n", name_, size, last_);
    return true;
  }

  bool stop(double size, const std::string& why) const {
    fmt::print(stderr, "growth: {} ends before {:.0f}: {}\n", name_, size, why);
    return false;
  }

private:
  std::string name_;
  double last_;
  double most_seconds_;
  double begun_;
  double lap_;
};

/// Nanoseconds of one `step`: the median of some batches, each long enough for the clock.
template <class Step>
double cost_ns(Step step) {
  constexpr double batch_ns = 5e6;
  constexpr int batches = 5;
  std::vector<double> costs;
  for (int i = 0; i < batches; ++i) {
    int done = 0;
    const auto start = now_ns();
    do {
      step();
      ++done;
    } while (now_ns() - start < batch_ns);
    costs.push_back((now_ns() - start) / done);
  }
  return median(costs);
}

void add(Growth& growth, std::size_t series, double size, double cost) {
  growth.series[series].points.push_back({size, cost});
}

// -- the ledger -----------------------------------------------------------------------------------

Growth grow_devices(bool quick) {
  Growth growth{"devices",
                "A decision of the scheduler, by the number of devices (8 a node)",
                "devices",
                "nanoseconds",
                {{"grant and release"}, {"group of 8 devices"}}};
  const int last = quick ? 800 : 80'000;
  constexpr double bytes_a_device = 4'096;
  Steps steps{growth.name, double(last), quick};
  for (int devices = 8; devices <= last && steps.allow(devices, 10, devices * bytes_a_device); devices *= 10) {
    LedgerBed bed{devices / 8};
    const auto request = share_of(Share{2'500});
    add(growth, 0, devices, cost_ns([&] { bed.grant_and_release(request); }));
    add(growth, 1, devices, cost_ns([&] { bed.make_and_remove_group(8); }));
  }
  return growth;
}

Growth grow_pending(bool quick) {
  Growth growth{"pending",
                "A release and the grant of the next, by the number of requests that wait",
                "waiting requests",
                "nanoseconds",
                {{"release, grant, new request"}}};
  const std::uint64_t last = quick ? 1'000 : 1'000'000;
  constexpr double bytes_each = 2'048;
  Steps steps{growth.name, double(last), quick};
  for (std::uint64_t count = 1; count <= last && steps.allow(double(count), 10, double(count) * bytes_each);
       count *= 10) {
    WaitingBed bed{count};
    add(growth, 0, double(count), cost_ns([&] { bed.wake(); }));
  }
  return growth;
}

// -- actors ---------------------------------------------------------------------------------------

class GrownActor : public Actor {
public:
  using Actor::Actor;

  Small nothing(const Bytes&) {
    return {};
  }

  /// Reads a byte of each page.
  Result<Small> look(const v1::TensorRef& ref) {
    constexpr std::size_t page = 4'096;
    GPUACTORS_LET(shared, tensors().get(ref));
    GPUACTORS_LET(bytes, shared.host<std::uint8_t>());
    Small sum;
    for (std::size_t at = 0; at < bytes.size(); at += page)
      sum.set_n(sum.n() + bytes[at]);
    return sum;
  }
};

GPUACTORS_ACTOR("bench.grown", GrownActor).method("nothing", &GrownActor::nothing).method("look", &GrownActor::look);

/// Has so many actors more; microseconds of each. The error of the first that could not be started.
Result<double> spawn_more(Cluster& cluster, std::vector<ActorRef>& actors, int count) {
  std::vector<Future<ActorRef>> spawning;
  const auto start = now_ns();
  for (int i = 0; i < count; ++i)
    spawning.push_back(cluster.spawn_async("bench.grown"));
  for (auto& actor : spawning) {
    GPUACTORS_LET(ready, actor.get());
    actors.push_back(std::move(ready));
  }
  return (now_ns() - start) / ns_in_a_microsecond / count;
}

double call_each_us(const std::vector<ActorRef>& actors) {
  std::vector<Future<Small>> futures;
  const auto start = now_ns();
  for (const auto& actor : actors)
    futures.push_back(actor.call<Small>("nothing", Bytes{}));
  for (auto& future : futures)
    (void)check(future.get());
  return (now_ns() - start) / ns_in_a_microsecond / static_cast<double>(actors.size());
}

Growth grow_actors(bool quick) {
  Growth growth{"actors",
                "Actors of one process: each has a thread of its own",
                "actors",
                "microseconds",
                {{"start, each"}, {"call of one"}, {"call of all at once, each"}}};
  const int last = quick ? 100 : 10'000;
  constexpr double bytes_each = 256U << 10;
  auto cluster = check(Cluster::embed({.devices = "host:1x1GiB"}));
  std::vector<ActorRef> actors;
  Steps steps{growth.name, double(last), quick};
  for (int count = 1; count <= last && steps.allow(count, 10, count * bytes_each); count *= 10) {
    const auto started = spawn_more(cluster, actors, count - static_cast<int>(actors.size()));
    if (!started) {
      steps.stop(count, started.error().message());
      break;
    }
    add(growth, 0, count, *started);
    add(growth, 1, count, cost_ns([&] { (void)check(actors.front().call<Small>("nothing", Bytes{}).get()); }) / 1e3);
    call_each_us(actors);
    add(growth, 2, count, call_each_us(actors));
  }
  return growth;
}

// -- messages -------------------------------------------------------------------------------------

double call_us(const ActorRef& actor, std::size_t size) {
  Bytes message;
  message.set_data(std::string(size, 'x'));
  return cost_ns([&] { (void)check(actor.call<Small>("nothing", message).get()); }) / ns_in_a_microsecond;
}

double tensor_us(Cluster& cluster, const ActorRef& actor, const std::vector<std::uint8_t>& bytes) {
  return cost_ns([&] {
           const auto tensor = check(cluster.put(bytes, {static_cast<std::int64_t>(bytes.size())}));
           (void)check(actor.call<Small>("look", tensor.ref()).get());
         })
         / ns_in_a_microsecond;
}

double memcpy_us(const std::vector<std::uint8_t>& bytes) {
  std::vector<std::uint8_t> target(bytes.size());
  const volatile auto* seen = target.data();
  return cost_ns([&] {
           std::memcpy(target.data(), bytes.data(), bytes.size());
           (void)seen[bytes.size() - 1]; // or the compiler would leave the copy out
         })
         / ns_in_a_microsecond;
}

Growth grow_messages(bool quick) {
  Growth growth{"messages",
                "A call with an argument, by its size",
                "bytes",
                "microseconds",
                {{"message, embedded"}, {"message, other process"}, {"tensor, other process"}, {"memcpy"}}};
  const std::size_t last = quick ? 32U << 10 : 256U << 20;
  constexpr std::size_t largest_message = 3U << 20; // below limits::payload_bytes with what is around it
  auto embedded = check(Cluster::embed({.devices = "host:1x1GiB"}));
  const auto near = check(embedded.spawn("bench.grown"));
  Remote remote{{}};
  const auto far = check(remote.cluster().spawn("bench.grown"));
  Steps steps{growth.name, double(last), quick};
  for (std::size_t size = 64; steps.allow(double(size), 8, double(size) * 8); size = std::min(size * 8, last)) {
    const std::vector<std::uint8_t> bytes(size, 1);
    if (size <= largest_message) {
      add(growth, 0, double(size), call_us(near, size));
      add(growth, 1, double(size), call_us(far, size));
    }
    add(growth, 2, double(size), tensor_us(remote.cluster(), far, bytes));
    add(growth, 3, double(size), memcpy_us(bytes));
    if (size == last)
      break;
  }
  return growth;
}

// -- nodes ----------------------------------------------------------------------------------------

GPUACTORS_TASK("bench.grown", [](TaskContext&, const Empty&) { return Small{}; });

Result<Cluster> embed_nodes(int count) {
  EmbedOptions options;
  for (int i = 0; i < count; ++i)
    options.nodes.push_back({.name = fmt::format("n{}", i), .devices = "host:1x64MiB", .cpus = 1});
  return Cluster::embed(std::move(options));
}

Growth grow_nodes(bool quick) {
  Growth growth{"nodes",
                "A cluster by the number of its nodes (all simulated in one process)",
                "nodes",
                "microseconds",
                {{"start, each node"}, {"task on a lease of its own"}, {"state, each node"}}};
  const int last = quick ? 10 : 10'000;
  constexpr double bytes_a_node = 256U << 10;
  Steps steps{growth.name, double(last), quick};
  for (int count = 1; count <= last && steps.allow(count, 10, count * bytes_a_node); count *= 10) {
    const auto start = now_ns();
    auto cluster = embed_nodes(count);
    if (!cluster) {
      steps.stop(count, cluster.error().message());
      break;
    }
    add(growth, 0, count, (now_ns() - start) / ns_in_a_microsecond / count);
    int shape = 0;
    add(growth, 1, count, cost_ns([&] {
                            // Another name is another shape: nobody has an idle lease for it.
                            const Options options{.gpus = 0.001, .name = fmt::format("t{}", ++shape)};
                            (void)check(cluster->submit<Small>("bench.grown", Empty{}, options).get());
                          }) / ns_in_a_microsecond);
    add(growth, 2, count,
        cost_ns([&] { (void)check(cluster->state()); }) / ns_in_a_microsecond / static_cast<double>(count));
  }
  return growth;
}

} // namespace

std::vector<std::pair<std::string, std::function<Growth(bool)>>> growth_curves() {
  return {{"devices", grow_devices},
          {"pending", grow_pending},
          {"actors", grow_actors},
          {"messages", grow_messages},
          {"nodes", grow_nodes}};
}

} // namespace gpuactors::bench

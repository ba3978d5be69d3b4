// What a cluster of processes costs beside its work: actors that nobody calls, and calls beside a large transfer.
#include "remote_cluster.hpp"
#include "rows.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/transport.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

namespace gpuactors::bench {

namespace {

// -- actors that do nothing -----------------------------------------------------------------------

class Bystander : public Actor {
public:
  using Actor::Actor;

  Small pid(const google::protobuf::Empty&) {
    Small result;
    result.set_n(::getpid());
    return result;
  }

  Bytes echo(const Bytes& in) {
    return in;
  }

  /// Keeps a tensor of `n` bytes for others to fetch.
  Result<v1::TensorRef> offer(const Small& n) {
    const std::vector<std::uint8_t> values(static_cast<std::size_t>(n.n()), 1);
    GPUACTORS_LET(tensor, Cluster::from(*this).put(values, {n.n()}));
    offered_ = std::move(tensor);
    return offered_->ref();
  }

private:
  std::optional<Shared<Tensor>> offered_;
};

GPUACTORS_ACTOR("bench.bystander", Bystander)
    .method("pid", &Bystander::pid)
    .method("echo", &Bystander::echo)
    .method("offer", &Bystander::offer);

constexpr int idle_actors = 1'000;

std::int64_t process_of(const ActorRef& actor) {
  return check(actor.call<Small>("pid").get()).n();
}

/// KiB of a process that nobody else has.
double private_kib(std::int64_t pid) {
  std::ifstream file{fmt::format("/proc/{}/smaps_rollup", pid)};
  std::string word;
  double sum = 0;
  while (file >> word)
    if (double value = 0; (word == "Private_Clean:" || word == "Private_Dirty:") && file >> value)
      sum += value;
  return sum;
}

/// Seconds of processor time that a process has used.
double processor_seconds(std::int64_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(file, text);
  unsigned long user = 0;
  unsigned long system = 0;
  const auto after_name = text.rfind(')');
  if (after_name == std::string::npos
      || std::sscanf(text.c_str() + after_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system)
             != 2)
    std::exit(1);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// What a worker has with a thousand actors more, and the processor time that it uses while nobody calls them.
struct Idle {
  double kib_each = 0;
  double processor_ms_a_second = 0;
};

Idle idle_cost() {
  Remote remote{{.tls = true}};
  auto& cluster = remote.cluster();
  const Options options{.gpus = 0.0005};
  auto first = check(cluster.spawn("bench.bystander", google::protobuf::Empty{}, options));
  const auto pid = process_of(first);
  const auto before = private_kib(pid);
  std::vector<Future<ActorRef>> spawning;
  spawning.reserve(idle_actors);
  for (int i = 0; i < idle_actors; ++i)
    spawning.push_back(cluster.spawn_async("bench.bystander", google::protobuf::Empty{}, options));
  for (auto& future : spawning)
    (void)process_of(check(future.get()));
  Idle idle;
  idle.kib_each = (private_kib(pid) - before) / idle_actors;
  constexpr int watched_seconds = 5;
  const auto used = processor_seconds(pid);
  std::this_thread::sleep_for(std::chrono::seconds{watched_seconds});
  idle.processor_ms_a_second = (processor_seconds(pid) - used) * 1'000 / watched_seconds;
  return idle;
}

Row idle_row(const std::string& name, const std::string& unit, int repeat, double bound, double Idle::*part) {
  auto row = measure(
      name, unit, repeat, [part] { return idle_cost().*part; }, [bound] { return bound; });
  row.floor_kind = FloorKind::target;
  row.bound = 1;
  return row;
}

// -- calls beside a transfer ----------------------------------------------------------------------

constexpr std::int64_t transfer_bytes = std::int64_t{4} << 30;
constexpr std::size_t call_bytes = 64;
constexpr double in_a_microsecond = 1e3;

/// Microseconds that 99 of 100 calls stay below, over two seconds.
double call_p99(const ActorRef& actor) {
  Bytes message;
  message.set_data(std::string(call_bytes, 'x'));
  std::vector<double> times;
  constexpr double for_ns = 2e9;
  const auto start = now_ns();
  while (now_ns() - start < for_ns) {
    const auto begun = now_ns();
    (void)check(actor.call<Bytes>("echo", message).get());
    times.push_back((now_ns() - begun) / in_a_microsecond);
  }
  const auto rank = static_cast<std::ptrdiff_t>(times.size() * 99 / 100);
  std::nth_element(times.begin(), times.begin() + rank, times.end());
  return times[static_cast<std::size_t>(rank)];
}

/// The same process serves the calls and a stream of 4 GiB tensors to a third one, as to another machine.
Row beside_transfer(const std::string& name, int repeat) {
  Remote remote{{.tls = true}};
  auto actor = check(remote.cluster().spawn("bench.bystander", google::protobuf::Empty{}, {.gpus = 0.5}));
  Small size;
  size.set_n(transfer_bytes);
  const auto ref = check(actor.call<v1::TensorRef>("offer", size).get());
  auto row = measure(
      name, "us", repeat,
      [&] {
        Child other{{"--fetch", ref.address(), std::to_string(ref.id()), remote.certificates()}};
        if (other.line() != "fetching")
          std::exit(1);
        return call_p99(actor);
      },
      [&] { return call_p99(actor); });
  row.floor_kind = FloorKind::smaller;
  row.bound = 3;
  return row;
}

} // namespace

int fetch_for_ever(const std::string& address, std::uint64_t id, const std::string& certificates) {
  BulkClientOptions options;
  options.certificates = check(CertificateFolder{certificates}.ensure());
  options.local = false;
  const auto client = check(BulkClient::create(options));
  const auto from = check(parse_bulk_address(address));
  fmt::print("fetching\n");
  std::fflush(stdout);
  for (;;)
    (void)check(client->fetch(from, id, static_cast<std::uint64_t>(transfer_bytes), never));
}

std::vector<Benchmark> remote_load_benchmarks() {
  constexpr double most_kib = 64;
  // A hundredth of one processor.
  constexpr double most_ms = 10;
  return {
      {"remote_idle_actor_memory",
       [](int repeat) { return idle_row("remote_idle_actor_memory", "KiB", repeat, most_kib, &Idle::kib_each); }},
      {"remote_idle_actors_processor",
       [](int repeat) {
         return idle_row("remote_idle_actors_processor", "ms/s", repeat, most_ms, &Idle::processor_ms_a_second);
       }},
      {"remote_call_p99_beside_4GiB",
       [](int repeat) { return beside_transfer("remote_call_p99_beside_4GiB", repeat); }},
  };
}

} // namespace gpuactors::bench

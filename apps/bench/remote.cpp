// Calls, tasks and tensors between processes of a cluster on loopback, beside plain CAF between two processes; and how
// long the death of a process takes to be seen.
#include "floor.hpp"
#include "remote_cluster.hpp"
#include "rows.hpp"
#include "tcp_echo.hpp"

#include <gpuactors/bench/messages.pb.h>

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace gpuactors::bench {

namespace {

using std::chrono::seconds;

class RemoteEcho : public Actor {
public:
  using Actor::Actor;

  Bytes echo(const Bytes& in) {
    return in;
  }

  Small pid(const google::protobuf::Empty&) {
    Small result;
    result.set_n(::getpid());
    return result;
  }
};

GPUACTORS_ACTOR("bench.remote", RemoteEcho).method("echo", &RemoteEcho::echo).method("pid", &RemoteEcho::pid);
GPUACTORS_TASK("bench.remote", [](TaskContext&, const Bytes& in) { return in; });

constexpr int remote_lone_calls = 3'000;
constexpr int remote_many_calls = 30'000;
constexpr int remote_flying = 1'000;

Bytes message() {
  Bytes result;
  result.set_data(std::string(message_bytes, 'x'));
  return result;
}

/// Microseconds each, with so many in flight.
template <class Start>
double pace(int count, int in_flight, const Start& start_one) {
  std::vector<Future<Bytes>> futures;
  futures.reserve(static_cast<std::size_t>(in_flight));
  const auto start = now_ns();
  for (int done = 0; done < count; done += in_flight) {
    futures.clear();
    for (int i = 0; i < in_flight; ++i)
      futures.push_back(start_one());
    for (auto& future : futures)
      check(future.get());
  }
  constexpr double in_a_microsecond = 1'000;
  return (now_ns() - start) / count / in_a_microsecond;
}

double per_second(double microseconds) {
  constexpr double in_a_second = 1e6;
  return in_a_second / microseconds;
}

Row lone(const std::string& name, int repeat, Remote& remote, double bound,
         const std::function<Future<Bytes>()>& start) {
  auto row = measure(
      name, "us", repeat, [&] { return pace(remote_lone_calls, 1, start); },
      [&] { return remote.floor(remote_lone_calls, 1); });
  row.bound = bound;
  return row;
}

Row many(const std::string& name, int repeat, Remote& remote, double bound,
         const std::function<Future<Bytes>()>& start) {
  auto row = measure(
      name, "1/s", repeat, [&] { return per_second(pace(remote_many_calls, remote_flying, start)); },
      [&] { return per_second(remote.floor(remote_many_calls, remote_flying)); });
  row.bound = bound;
  row.at_most = false;
  return row;
}

// -- spawning -------------------------------------------------------------------------------------

constexpr int actors = 1'000;

/// Actors a second, each with a thousandth of one host device.
double spawn_rate(Cluster& cluster) {
  std::vector<Future<ActorRef>> spawning;
  spawning.reserve(actors);
  const auto start = now_ns();
  for (int i = 0; i < actors; ++i)
    spawning.push_back(cluster.spawn_async("bench.remote", google::protobuf::Empty{}, {.gpus = 0.001}));
  std::vector<ActorRef> spawned;
  spawned.reserve(actors);
  for (auto& future : spawning)
    spawned.push_back(check(future.get()));
  const auto rate = actors / (now_ns() - start) * 1e9;
  for (const auto& actor : spawned)
    if (auto killed = cluster.kill(actor); !killed)
      (void)check(Result<int>{fail(killed.error())});
  return rate;
}

// -- deaths ---------------------------------------------------------------------------------------

/// Milliseconds from the kill of a worker to the error of a call, and to its lease being free.
struct Death {
  double error = 0;
  double free = 0;
};

Death kill_worker(Cluster& cluster) {
  auto actor = check(cluster.spawn("bench.remote", google::protobuf::Empty{}, {.gpus = 1}));
  const auto pid = static_cast<pid_t>(check(actor.call<Small>("pid").get()).n());
  constexpr double in_a_millisecond = 1e6;
  const auto start = now_ns();
  ::kill(pid, SIGKILL);
  auto call = actor.call<Bytes>("echo", message(), seconds{30});
  if (call.get())
    std::abort();
  Death death;
  death.error = (now_ns() - start) / in_a_millisecond;
  while (check(cluster.state()).leases_size() > 0)
    std::this_thread::yield();
  death.free = (now_ns() - start) / in_a_millisecond;
  return death;
}

/// Against a bound in milliseconds as the floor.
Row death_row(const std::string& name, int repeat, double bound_ms, double Death::*part) {
  Remote remote{{.tls = true}};
  auto row = measure(
      name, "ms", repeat, [&] { return kill_worker(remote.cluster()).*part; }, [&] { return bound_ms; });
  row.floor_kind = FloorKind::target;
  row.bound = 1;
  return row;
}

} // namespace

std::vector<Benchmark> remote_benchmarks() {
  std::vector<Benchmark> result;
  const auto add = [&](std::string name, std::function<Row(const std::string&, int)> run) {
    result.push_back({name, [name, run](int repeat) { return run(name, repeat); }});
  };
  for (const bool tls : {false, true}) {
    const std::string link = tls ? "_tls" : "_plain";
    add("remote_call_lone" + link, [tls](const std::string& name, int repeat) {
      Remote remote{{.tls = tls}};
      auto actor = check(remote.cluster().spawn("bench.remote"));
      return lone(name, repeat, remote, 1.15, [&] { return actor.call<Bytes>("echo", message()); });
    });
    add("remote_call_1000" + link, [tls](const std::string& name, int repeat) {
      Remote remote{{.tls = tls}};
      auto actor = check(remote.cluster().spawn("bench.remote"));
      return many(name, repeat, remote, 0.9, [&] { return actor.call<Bytes>("echo", message()); });
    });
    add("remote_task_lone" + link, [tls](const std::string& name, int repeat) {
      Remote remote{{.tls = tls}};
      return lone(name, repeat, remote, 1.5,
                  [&] { return remote.cluster().submit<Bytes>("bench.remote", message(), {.gpus = 0.25}); });
    });
    add("remote_task_1000" + link, [tls](const std::string& name, int repeat) {
      Remote remote{{.tls = tls}};
      return many(name, repeat, remote, 0.5,
                  [&] { return remote.cluster().submit<Bytes>("bench.remote", message(), {.gpus = 0.25}); });
    });
  }
  add("remote_call_lone_beside_tcp", [](const std::string& name, int repeat) {
    Remote remote{{}};
    const TcpEcho echo;
    const auto actor = check(remote.cluster().spawn("bench.remote"));
    return measure(
        name, "us", repeat,
        [&] { return pace(remote_lone_calls, 1, [&] { return actor.call<Bytes>("echo", message()); }); },
        [&] { return echo.ask(remote_lone_calls); });
  });
  add("remote_spawn_1000", [](const std::string& name, int repeat) {
    Remote remote{{.tls = true}};
    constexpr double wanted = 2'000;
    auto row = measure(
        name, "1/s", repeat, [&] { return spawn_rate(remote.cluster()); }, [&] { return wanted; });
    row.floor_kind = FloorKind::target;
    row.bound = 1;
    row.at_most = false;
    return row;
  });
  add("remote_death_error",
      [](const std::string& name, int repeat) { return death_row(name, repeat, 20, &Death::error); });
  add("remote_death_free",
      [](const std::string& name, int repeat) { return death_row(name, repeat, 100, &Death::free); });
  return result;
}

} // namespace gpuactors::bench

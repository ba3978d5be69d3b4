#include "operations.hpp"

#include "harness.hpp"
#include "ledger_bed.hpp"
#include "remote_cluster.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/gpuactors.hpp>

#include <algorithm>
#include <cstddef>

namespace gpuactors::bench {

namespace {

/// So many that threads seldom wait for each other: how often they do depends on the machine, and is not counted well.
constexpr int operations_in_flight = 200;

class CountedActor : public Actor {
public:
  using Actor::Actor;

  Small echo(const Small& in) {
    return in;
  }
};

GPUACTORS_ACTOR("bench.counted", CountedActor).method("echo", &CountedActor::echo);

/// Begins so many, some of them at a time, and waits for each. @param begin makes a future of a message.
template <class Begin>
void do_many(int count, Begin begin) {
  std::vector<Future<Small>> futures;
  futures.reserve(operations_in_flight);
  for (int done = 0; done < count; done += operations_in_flight) {
    futures.clear();
    for (int i = 0; i < std::min(operations_in_flight, count - done); ++i) {
      Small message;
      message.set_n(i);
      futures.push_back(begin(message));
    }
    for (auto& future : futures)
      (void)check(future.get());
  }
}

void call_many(const ActorRef& actor, int count) {
  do_many(count, [&](const Small& message) { return actor.call<Small>("echo", message); });
}

GPUACTORS_TASK("bench.counted", [](TaskContext&, const Small& in) -> Result<Small> { return in; });

void submit_counted(Cluster& cluster, int count) {
  // One lease, so that no two threads take tasks at once.
  do_many(count, [&](const Small& message) { return cluster.submit<Small>("bench.counted", message, {.gpus = 1}); });
}

void call_in(Cluster& cluster, int count) {
  const auto actor = check(cluster.spawn("bench.counted", google::protobuf::Empty{}, {.gpus = 0.5}));
  call_many(actor, operations_in_flight);
  call_many(actor, count);
}

} // namespace

std::vector<std::string> operation_names() {
  return {"ledger", "embedded", "remote", "task"};
}

void run_operations(std::string_view name, int count) {
  if (name == "ledger") {
    LedgerBed bed{1};
    const auto request = share_of(Share{2'500});
    for (int i = 0; i < count; ++i)
      bed.grant_and_release(request);
  } else if (name == "embedded") {
    auto cluster = check(Cluster::embed({.devices = "host:1x1GiB"}));
    call_in(cluster, count);
  } else if (name == "task") {
    auto cluster = check(Cluster::embed({.devices = "host:1x1GiB"}));
    submit_counted(cluster, operations_in_flight);
    submit_counted(cluster, count);
  } else {
    Remote remote{{}};
    call_in(remote.cluster(), count);
  }
}

} // namespace gpuactors::bench

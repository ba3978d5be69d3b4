// Replicas in a cluster of processes of which some die: what is to end ends, and nothing waits for what is gone.
#include "zero_digits.hpp"

#include <gpuactors/cluster/daemon.hpp>
#include <gpuactors/cluster/local_cluster.hpp>

#include <apps/serve/models/actor_stream.hpp>
#include <apps/serve/models/batch_calls.hpp>
#include <apps/serve/models/replica_starter.hpp>
#include <support/eventually.hpp>
#include <support/run_tests.hpp>

#include <memory>
#include <optional>
#include <utility>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::LocalCluster;
using gpuactors::test::eventually;

namespace {

class FarDigits : public ZeroDigits {
public:
  using ZeroDigits::ZeroDigits;
};

GPUACTORS_ACTOR("test/far-digits", FarDigits, wire::ReplicaConfig)
    .method(describe_method, &FarDigits::describe)
    .method(infer_method, &FarDigits::infer);

LocalCluster start_cluster(std::size_t nodes) {
  gpuactors::LocalClusterOptions options;
  options.store = true;
  options.on_line = nullptr;
  options.nodes.resize(nodes);
  for (auto& node : options.nodes)
    node.devices = "host:1x64MiB";
  return must(LocalCluster::start(std::move(options)));
}

/// Starts such replicas on a cluster.
struct Far {
  explicit Far(LocalCluster& cluster) : starter(cluster.cluster(), bell, kind()) {
    // nop
  }

  static ReplicaKind kind() {
    ReplicaKind kind;
    kind.type = "test/far-digits";
    kind.config.set_model("digits");
    kind.config.set_version("1");
    kind.resources.gpus = 0.5;
    kind.end_wait = 10ms;
    kind.lasting = LastingNames{"prod", "digits", "mark"};
    return kind;
  }

  std::shared_ptr<KeeperBell> bell = std::make_shared<KeeperBell>();
  ReplicaStarter starter;
};

} // namespace

int main(int argc, char** argv) {
  if (const auto code = gpuactors::run_if_worker(argc, argv))
    return *code;
  return gpuactors::test::run_tests(argc, argv);
}

TEST_CASE("a replica that is to end while the broker is away ends when that is back", "[serve]") {
  auto cluster = start_cluster(1);
  Far far{cluster};
  const auto replica = must(far.starter.spawn(60s));
  must(cluster.kill_broker());
  far.starter.kill({replica.actor});
  CHECK_FALSE(replica.actor.away());
  must(cluster.start_broker());
  CHECK(eventually([&] { return replica.actor.away(); }));
}

TEST_CASE("who is told to stop waits for no broker that is away", "[serve]") {
  auto cluster = start_cluster(0);
  Far far{cluster};
  must(cluster.kill_broker());
  far.bell->stop();
  CHECK(code_of(far.starter.find_type()) == Errc::unavailable);
  CHECK(code_of(far.starter.take_over(60s)) == Errc::unavailable);
  CHECK(code_of(end_left(cluster.cluster(), "prod", "digits", {}, [] { return true; })) == Errc::unavailable);
}

TEST_CASE("an idle replica that dies while the broker is away is lost at once, and nobody waits for it", "[serve]") {
  auto cluster = start_cluster(2);
  Notices notices;
  TableOptions options;
  options.notice = notices.taker();
  ModelTable table{cluster.cluster(), options};
  must(table.add(must(parse_model("digits,actor=test/far-digits,gpus=0.5,replicas=2", {}))));
  must(table.load("digits", {}));
  must(cluster.kill_broker());
  must(cluster.kill_node("n0"));
  CHECK(eventually([&] { return notices.count("was lost: actor_died") == 1; }));
  for (int i = 0; i < 4; ++i)
    must(ask(table, request_for("digits", some_rows(1, 1))));
  must(cluster.start_broker());
}

TEST_CASE("a call of a replica that is gone does not wait for a broker that is away", "[serve]") {
  auto cluster = start_cluster(1);
  Far far{cluster};
  const auto replica = must(far.starter.spawn(60s));
  must(cluster.kill_broker());
  must(cluster.kill_node("n0"));
  REQUIRE(eventually([&] { return replica.actor.away(); }));
  const auto calls = std::make_shared<BatchCalls>(cluster.cluster(), false, false);
  std::optional<Errc> code;
  calls->call(replica.actor, Batch{}, 60s, [&](const gpuactors::Result<BatchReply>& reply) { code = code_of(reply); });
  CHECK(code == Errc::not_begun);
  CHECK(code_of(stream_from(replica.actor)({}, 60s)->take()) == Errc::not_begun);
  calls->end();
}

// Replicas whose ends take long, or that cannot serve: they hold up nobody else.
#include "zero_digits.hpp"

#include <apps/serve/models/deployment.hpp>
#include <support/no_threads.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <string>
#include <utility>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::test::NoThreads;

namespace {

/// Holds the ends of so many replicas of "test/slow-end".
std::atomic<int>& ends_to_hold() {
  static std::atomic<int> count{0};
  return count;
}

gpuactors::test::Gate& end_gate() {
  static gpuactors::test::Gate instance{true};
  return instance;
}

/// The ends of some replicas are held during a test, and go on after it.
struct HeldEnds {
  explicit HeldEnds(int count) {
    end_gate().close();
    ends_to_hold() = count;
  }
  ~HeldEnds() {
    ends_to_hold() = 0;
    end_gate().open();
  }
};

class SlowEnd;

/// Replicas that cannot infer from now on: those with these numbers, from 1 on.
struct Unfit {
  static std::atomic<int>& up_to() {
    static std::atomic<int> number{0};
    return number;
  }

  Unfit() {
    made<SlowEnd>() = up_to() = 0;
  }
  ~Unfit() {
    up_to() = 0;
  }
};

class SlowEnd : public ZeroDigits {
public:
  SlowEnd(gpuactors::Init init, const wire::ReplicaConfig& config)
    : ZeroDigits(std::move(init), config), number_(++made<SlowEnd>()) {
    // nop
  }

  ~SlowEnd() override {
    if (ends_to_hold()-- > 0)
      end_gate().pass();
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    if (number_ <= Unfit::up_to())
      return gpuactors::fail(Errc::internal, "it has forgotten how");
    return ZeroDigits::infer(batch);
  }

private:
  const int number_;
};

GPUACTORS_ACTOR("test/slow-end", SlowEnd, wire::ReplicaConfig)
    .method(describe_method, &SlowEnd::describe)
    .method(infer_method, &SlowEnd::infer);

ModelConfig slow_ends(const std::string& keys) {
  return must(parse_model("digits,actor=test/slow-end,gpus=0.25," + keys, {}));
}

/// Whether a replica has not ended within its grace: whoever waited for its end goes on then.
bool any_is_given_up(gpuactors::Cluster& cluster) {
  const auto state = must(cluster.state({.events_from = 1}));
  return std::any_of(state.events().begin(), state.events().end(),
                     [](const auto& event) { return event.kind() == "stuck"; });
}

/// A cluster in which a server of the deployment "prod" has left two replicas.
struct LeftTwo {
  LeftTwo() : server{{}, "host:4x64MiB"} {
    options.deployment = "prod";
    ModelTable table{server.cluster, options};
    table.set({config});
    must(table.settle("digits"));
    table.close(gpuactors::TimePoint{});
    names = names_of(server.cluster);
    REQUIRE(names.size() == 2);
  }

  const Unfit unfit;
  Server server;
  const ModelConfig config = slow_ends("replicas=2");
  TableOptions options;
  std::set<std::string> names;
};

} // namespace

TEST_CASE("an idle replica whose end takes long keeps no other from being replaced", "[serve]") {
  Server server;
  const HeldEnds held{1};
  must(server.table.add(slow_ends("replicas=2,min-replicas=1,max-replicas=2,idle-after=0.1")));
  must(server.table.load("digits", {}));
  end_gate().await(1);
  const auto left = names_of(server.cluster);
  REQUIRE(left.size() == 1);
  must(server.cluster.kill(*left.begin()));
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
  CHECK(names_of(server.cluster, "stopping").size() == 1);
  CHECK_FALSE(any_is_given_up(server.cluster));
}

TEST_CASE("what a deployment has left and cannot infer is ended, and another one is started in its place", "[serve]") {
  LeftTwo left;
  Unfit::up_to() = 1;
  ModelTable table{left.server.cluster, left.options};
  table.set({left.config});
  must(table.settle("digits"));
  CHECK(must(table.describe("digits", "")).replicas == 2);
  const auto now = names_of(left.server.cluster);
  CHECK(now.size() == 2);
  std::set<std::string> kept;
  for (const auto& name : now)
    if (left.names.contains(name))
      kept.insert(name);
  CHECK(kept.size() == 1);
  for (std::uint64_t i = 0; i < 8; ++i)
    must(ask(table, request_for("digits", some_rows(1, i))));
}

TEST_CASE("when nothing that a deployment has left can infer, all of it ends together, and others are started",
          "[serve]") {
  LeftTwo left;
  Unfit::up_to() = 2;
  const HeldEnds held{2};
  ModelTable table{left.server.cluster, left.options};
  table.set({left.config});
  auto settled = std::async(std::launch::async, [&] { return table.settle("digits"); });
  end_gate().await(2);
  CHECK(names_of(left.server.cluster, "stopping") == left.names);
  CHECK_FALSE(any_is_given_up(left.server.cluster));
  end_gate().open();
  must(settled.get());
  CHECK(must(table.describe("digits", "")).replicas == 2);
  for (const auto& name : names_of(left.server.cluster))
    CHECK_FALSE(left.names.contains(name));
}

TEST_CASE("a server without a thread for its model leaves what a deployment has left for the next try", "[serve]") {
  LeftTwo left;
  ModelTable table{left.server.cluster, left.options};
  table.set({left.config});
  {
    const NoThreads none;
    const auto settled = table.settle("digits");
    CHECK(code_of(settled) == Errc::unavailable);
    CHECK(says(settled, "a model has no thread: "));
  }
  CHECK(names_of(left.server.cluster) == left.names);
  must(table.settle("digits"));
  CHECK(must(table.describe("digits", "")).replicas == 2);
  CHECK(names_of(left.server.cluster) == left.names);
}

TEST_CASE("replicas of a deployment that are to end do so together", "[serve]") {
  LeftTwo left;
  const HeldEnds held{2};
  auto ended = std::async(std::launch::async, [&] { return end_deployment(left.server.cluster, "prod"); });
  end_gate().await(2);
  CHECK(names_of(left.server.cluster, "stopping") == left.names);
  CHECK_FALSE(any_is_given_up(left.server.cluster));
  end_gate().open();
  CHECK(must(ended.get()) == 2);
}

// Every short history over a small menu of calls, on clusters of two devices.
#include <support/catch.hpp>

#include <property/history.hpp>

namespace {

using gpuactors::Share;
using history::History;
using history::Op;

Op submit(Share gpus, std::uint64_t bytes = 0, std::uint64_t parent = 0, int priority = 0) {
  Op op;
  op.request.gpus = gpus;
  op.request.memory_bytes = bytes;
  op.request.priority = priority;
  op.parent = parent;
  return op;
}

Op call(Op::Kind kind, std::uint64_t pick = 0) {
  Op op;
  op.kind = kind;
  op.pick = pick;
  op.seconds = 2;
  return op;
}

Op group(gpuactors::GroupStrategy strategy, std::vector<Share> bundles) {
  Op op;
  op.kind = Op::Kind::submit_group;
  op.bundles.strategy = strategy;
  for (const auto gpus : bundles) {
    op.bundles.bundles.emplace_back();
    op.bundles.bundles.back().gpus = gpus;
  }
  return op;
}

Op in_group(Share gpus) {
  auto op = submit(gpus);
  op.group = 1;
  op.request.bundle = -1;
  return op;
}

// One node with two devices, or two with one.
std::vector<Op> cluster(int nodes) {
  std::vector<Op> ops;
  for (int i = 0; i < nodes; ++i) {
    auto op = call(Op::Kind::add_node);
    op.node.name = "n" + std::to_string(i);
    op.node.devices.assign(nodes == 1 ? 2 : 1, {"", 100, ""});
    ops.push_back(op);
  }
  return ops;
}

// Runs every history of `length` calls from the menu; returns how many. The last call changes first, so that most
// histories begin as the one before.
std::uint64_t run_all(const std::vector<Op>& menu, std::size_t length, const gpuactors::LedgerOptions& options,
                      int nodes) {
  std::vector<std::size_t> choice(length, 0);
  const auto start = cluster(nodes);
  std::uint64_t count = 0;
  std::size_t known = 0;
  while (true) {
    History history{options, start};
    for (const auto i : choice)
      history.ops.push_back(menu[i]);
    ++count;
    if (const auto trouble = history::run(history, nullptr, known); !trouble.empty())
      FAIL(history::scenario(history) << trouble);
    auto changed = length;
    while (changed > 0 && ++choice[changed - 1] == menu.size())
      choice[--changed] = 0;
    if (changed == 0)
      return count;
    known = start.size() + changed - 1;
  }
}

constexpr std::size_t calls = 5;

gpuactors::LedgerOptions without_reservations() {
  gpuactors::LedgerOptions options;
  options.reservation_after = std::chrono::hours{1000};
  options.reservation_passes = 1'000'000;
  return options;
}

} // namespace

TEST_CASE("over every history of five calls on two devices the ledger does what a naive scheduler does") {
  gpuactors::LedgerOptions options;
  options.reservation_passes = 1;
  options.reservation_for = std::chrono::seconds{2};
  const std::vector<Op> menu = {submit(Share{3000}),          submit(Share{6000}),        submit(Share::whole(1)),
                                submit(Share::whole(2)),      submit(Share{}, 60),        submit(Share{5000}, 0, 1),
                                submit(Share{6000}, 0, 0, 1), call(Op::Kind::release, 0), call(Op::Kind::release, 1),
                                call(Op::Kind::advance)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, options, nodes) == 100'000);
}

TEST_CASE("over every history of five calls with groups and failures the ledger does what a naive scheduler does") {
  const std::vector<Op> menu = {submit(Share{6000}),
                                submit(Share::whole(1)),
                                group(gpuactors::GroupStrategy::strict_spread, {Share{5000}, Share{5000}}),
                                group(gpuactors::GroupStrategy::pack, {Share{4000}, Share::whole(1)}),
                                in_group(Share{5000}),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::release_group, 0),
                                call(Op::Kind::fail_device, 0),
                                call(Op::Kind::drain_node, 0),
                                call(Op::Kind::remove_node, 0)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, without_reservations(), nodes) == 100'000);
}

TEST_CASE("over every history of five calls with nodes that are drained for a while the ledger does what a naive "
          "scheduler does") {
  const std::vector<Op> menu = {submit(Share{6000}),
                                submit(Share::whole(1)),
                                group(gpuactors::GroupStrategy::strict_spread, {Share{5000}, Share{5000}}),
                                group(gpuactors::GroupStrategy::strict_pack, {Share{4000}, Share{5000}}),
                                in_group(Share{5000}),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::release_group, 0),
                                call(Op::Kind::undrain_node, 0),
                                call(Op::Kind::drain_node, 0),
                                call(Op::Kind::remove_node, 0)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, without_reservations(), nodes) == 100'000);
}

TEST_CASE("over every history of five calls with a group that shrinks the ledger does what a naive scheduler does") {
  auto shrinking = group(gpuactors::GroupStrategy::spread, {Share{5000}, Share{6000}});
  shrinking.bundles.shrinks = true;
  auto in_first = in_group(Share{3000});
  in_first.request.bundle = 0;
  const std::vector<Op> menu = {shrinking,
                                in_first,
                                in_group(Share{6000}),
                                submit(Share{2000}, 0, 1),
                                submit(Share::whole(1)),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::release, 1),
                                call(Op::Kind::fail_device, 0),
                                call(Op::Kind::release_group, 0),
                                call(Op::Kind::remove_node, 0)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, without_reservations(), nodes) == 100'000);
}

TEST_CASE("over every history of five calls with groups and reservations the ledger does what a naive scheduler does") {
  gpuactors::LedgerOptions options;
  options.reservation_passes = 1;
  options.reservation_for = std::chrono::seconds{2};
  auto shrinking = group(gpuactors::GroupStrategy::spread, {Share{5000}, Share{4000}});
  auto small = group(gpuactors::GroupStrategy::pack, {Share{1000}});
  for (auto* op : {&shrinking, &small}) {
    op->bundles.shrinks = true;
    op->bundles.queue = false;
  }
  const std::vector<Op> menu = {shrinking,
                                small,
                                in_group(Share{3000}),
                                submit(Share{4000}),
                                submit(Share::whole(1)),
                                submit(Share::whole(2)),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::release_group, 0),
                                call(Op::Kind::fail_device, 0),
                                call(Op::Kind::advance)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, options, nodes) == 100'000);
}

TEST_CASE("over every history of five calls with quotas the ledger does what a naive scheduler does") {
  gpuactors::LedgerOptions options;
  options.reservation_passes = 1;
  options.reservation_for = std::chrono::seconds{2};
  const auto quota = [](const char* owner, std::optional<Share> limit) {
    Op op;
    op.kind = Op::Kind::set_quota;
    op.request.owner = owner;
    op.quota = limit;
    return op;
  };
  const auto of_a = [](Op op) {
    op.request.owner = "a";
    return op;
  };
  const std::vector<Op> menu = {quota("a", Share{8000}),
                                quota("*", Share{5000}),
                                quota("a", std::nullopt),
                                of_a(submit(Share{3000})),
                                of_a(submit(Share{6000}, 0, 0, 1)),
                                of_a(submit(Share{}, 60)),
                                of_a(submit(Share{5000}, 0, 1)),
                                submit(Share::whole(1)),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::advance)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, options, nodes) == 100'000);
}

TEST_CASE("over every history of five calls with labels, wishes and lost bundles the ledger does what a naive "
          "scheduler does") {
  auto wish = submit(Share{6000});
  wish.request.node = "n1";
  wish.request.node_is_soft = true;
  auto labelled = submit(Share{5000});
  labelled.request.labels["zone"] = {gpuactors::LabelCondition::Op::not_in, {"a"}};
  auto waiting = group(gpuactors::GroupStrategy::spread, {Share{6000}, Share{6000}});
  waiting.bundles.wait_for_nodes = true;
  auto another = call(Op::Kind::add_node);
  another.node.name = "n1";
  another.node.labels["zone"] = "a";
  another.node.devices.assign(1, {"", 100, ""});
  const std::vector<Op> menu = {wish,
                                labelled,
                                another,
                                submit(Share::whole(2)),
                                waiting,
                                group(gpuactors::GroupStrategy::strict_pack, {Share{3000}, Share{6000}}),
                                in_group(Share{5000}),
                                call(Op::Kind::release, 0),
                                call(Op::Kind::fail_device, 0),
                                call(Op::Kind::remove_node, 0)};
  for (const int nodes : {1, 2})
    CHECK(run_all(menu, calls, without_reservations(), nodes) == 100'000);
}

// The generator of random histories.
#include <property/history.hpp>

#include <algorithm>

namespace history {

namespace {

using gpuactors::ResourceRequest;
using gpuactors::Share;

// splitmix64: the same numbers everywhere.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {
    // nop
  }

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    auto z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t below(std::uint64_t bound) {
    return next() % bound;
  }

  bool chance(std::uint64_t percent) {
    return below(100) < percent;
  }

  template <class T>
  T one_of(std::initializer_list<T> items) {
    return *(items.begin() + below(items.size()));
  }

private:
  std::uint64_t state_;
};

ResourceRequest make_request(Random& random) {
  using Op = gpuactors::LabelCondition::Op;
  ResourceRequest r;
  switch (random.below(10)) {
  case 0:
    break;
  case 1:
  case 2:
    r.gpus = Share::whole(random.one_of({1, 1, 1, 2, 2, 3}));
    break;
  case 3:
    r.memory_bytes = random.one_of<std::uint64_t>({1, 30, 40, 60, 100, 150});
    break;
  case 4:
    r.gpus = Share{random.one_of({1000, 3000, 10000})};
    r.memory_bytes = random.one_of<std::uint64_t>({10, 50, 90});
    break;
  default:
    r.gpus = Share{random.one_of({1000, 2500, 3000, 5000, 5000, 6000, 9000})};
  }
  if (random.chance(20))
    r.cpus = Share{random.one_of({5000, 10000, 20000, 40000})};
  if (random.chance(10))
    r.resources["x"] = Share{random.one_of({5000, 10000})};
  if (random.chance(15))
    r.accelerator_type = random.one_of<const char*>({"A", "B", "C"});
  if (random.chance(12)) {
    r.node = random.one_of<const char*>({"n0", "n1", "n2"});
    r.node_is_soft = random.chance(40);
  }
  if (random.chance(12))
    r.labels["zone"] = random.one_of<gpuactors::LabelCondition>(
        {"a", "b", {Op::in, {"a", "c"}}, {Op::not_in, {"a"}}, Op::exists, Op::absent});
  if (random.chance(20))
    r.strategy = gpuactors::Strategy::spread;
  return r;
}

std::string some_owner(Random& random) {
  return random.one_of<const char*>({"", "a", "a", "b", "c"});
}

gpuactors::NodeSpec make_node(Random& random) {
  gpuactors::NodeSpec node;
  node.name = random.one_of<const char*>({"n0", "n1", "n2", "n10"});
  node.cpus = Share::whole(random.one_of({0, 1, 4}));
  if (random.chance(40))
    node.labels["zone"] = random.one_of<const char*>({"a", "b"});
  if (random.chance(40))
    node.resources["x"] = Share::whole(1);
  const bool mixed = random.chance(30);
  const auto* type = random.one_of<const char*>({"", "A", "B"});
  std::uint64_t bytes = random.one_of<std::uint64_t>({100, 100, 200});
  for (auto count = random.chance(15) ? 0 : 1 + random.below(4); count > 0; --count) {
    node.devices.push_back({type, bytes, {}});
    if (mixed) {
      type = random.one_of<const char*>({"A", "B"});
      bytes = random.one_of<std::uint64_t>({100, 200});
    }
  }
  const auto topology = random.below(10);
  if (topology < 3)
    for (auto& device : node.devices)
      device.numa_node = random.one_of({-1, 0, 0, 1, 1});
  if (topology == 2 || topology == 3) {
    const auto count = node.devices.size();
    node.distances.assign(count, std::vector<int>(count, 0));
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < a; ++b)
        node.distances[a][b] = node.distances[b][a] = random.one_of({1, 1, 2, 4});
  }
  return node;
}

// Some nodes do not say what they have.
void add_types(Random& random, gpuactors::NodeSpec& node) {
  if (random.chance(20))
    return;
  node.types.emplace();
  for (const auto* type : {"t1", "t2", "t3"})
    if (random.chance(50))
      node.types->push_back(type);
}

Op make_submit(Random& random, bool with_groups) {
  Op op;
  op.kind = Op::Kind::submit;
  op.request = make_request(random);
  if (random.chance(30))
    op.request.priority = random.one_of({-1, 1, 2});
  if (random.chance(10))
    op.request.queue_timeout = std::chrono::seconds{random.one_of({1, 3})};
  op.request.wait_for_nodes = random.chance(10);
  op.request.queue = !random.chance(5);
  if (random.chance(20))
    op.parent = 1 + random.below(8);
  if (with_groups && random.chance(30)) {
    op.group = 1 + random.below(4);
    op.request.bundle = random.one_of({-1, 0, 0, 1, 2});
  }
  op.request.owner = some_owner(random);
  return op;
}

Op make_group(Random& random, bool may_wait) {
  Op op;
  op.kind = Op::Kind::submit_group;
  op.bundles.strategy = static_cast<gpuactors::GroupStrategy>(random.below(4));
  for (auto count = 1 + random.below(3); count > 0; --count) {
    auto bundle = random.chance(50) ? ResourceRequest{} : make_request(random);
    if (bundle.gpus == Share{} && bundle.memory_bytes == 0)
      bundle.gpus = random.one_of({Share{3000}, Share{5000}, Share::whole(1)});
    bundle.strategy = gpuactors::Strategy::pack;
    op.bundles.bundles.push_back(bundle);
  }
  op.bundles.priority = random.one_of({0, 0, 1});
  op.bundles.wait_for_nodes = random.chance(10);
  op.bundles.queue = may_wait && !random.chance(5);
  // One that does not shrink waits when it loses a bundle.
  op.bundles.shrinks = !may_wait || random.chance(30);
  if (random.chance(10))
    op.bundles.queue_timeout = std::chrono::seconds{2};
  // Where the bundles of a group go is not for the model to say, and with it not what those by memory alone take.
  if (std::all_of(op.bundles.bundles.begin(), op.bundles.bundles.end(),
                  [](const auto& bundle) { return bundle.gpus > Share{}; }))
    op.bundles.owner = some_owner(random);
  return op;
}

Op make_quota(Random& random) {
  Op op;
  op.kind = Op::Kind::set_quota;
  op.request.owner = random.one_of<const char*>({"a", "a", "b", "*"});
  if (random.chance(80))
    op.quota = Share{random.one_of({0, 2500, 5000, 9000, 10000, 15000, 20000, 30000})};
  return op;
}

// What there is in a history.
struct Kinds {
  bool groups = false;
  bool waiting_groups = false;
  bool quotas = false;
  bool types = false;
};

Op make_op(Random& random, const Kinds& with) {
  const auto dice = random.below(100);
  Op op;
  if (with.quotas && random.chance(5))
    op = make_quota(random);
  else if (with.types && random.chance(5))
    op.kind = Op::Kind::set_types;
  else if (dice < 45)
    op = make_submit(random, with.groups);
  else if (dice < 72)
    op.kind = Op::Kind::release;
  else if (dice < 76)
    op.kind = Op::Kind::cancel;
  else if (dice < 82 && with.groups)
    op = make_group(random, with.waiting_groups);
  else if (dice < 86 && with.groups)
    op.kind = Op::Kind::release_group;
  else if (dice < 93)
    op.kind = Op::Kind::advance;
  else if (dice < 96)
    op.kind = Op::Kind::add_node;
  else
    op.kind =
        random.one_of({Op::Kind::remove_node, Op::Kind::drain_node, Op::Kind::undrain_node, Op::Kind::fail_device});
  op.pick = random.next();
  op.seconds = random.one_of({1, 1, 2, 4});
  op.holders_stay = op.kind == Op::Kind::fail_device && random.chance(60);
  if (op.kind == Op::Kind::add_node)
    op.node = make_node(random);
  if (with.types && (op.kind == Op::Kind::add_node || op.kind == Op::Kind::set_types))
    add_types(random, op.node);
  if (with.types && op.kind == Op::Kind::submit && random.chance(60))
    op.request.type = gpuactors::TypeId{1 + random.below(3)};
  return op;
}

} // namespace

History make(std::uint64_t seed) {
  Random random(seed);
  History result;
  Kinds with;
  with.groups = random.chance(60);
  with.waiting_groups = with.groups && random.chance(60);
  if (with.waiting_groups) {
    result.options.reservation_after = std::chrono::hours{1000};
    result.options.reservation_passes = 1'000'000;
  } else {
    result.options.reservation_after = std::chrono::seconds{random.one_of({1, 3, 100})};
    result.options.reservation_passes = random.one_of({1, 2, 4, 100});
    result.options.reservation_for = std::chrono::seconds{random.one_of({2, 5})};
  }
  with.types = random.chance(40);
  for (auto count = 1 + random.below(3); count > 0; --count) {
    Op op;
    op.kind = Op::Kind::add_node;
    op.node = make_node(random);
    if (with.types)
      add_types(random, op.node);
    result.ops.push_back(op);
  }
  with.quotas = random.chance(60);
  for (auto count = with.quotas ? 1 + random.below(3) : 0; count > 0; --count)
    result.ops.push_back(make_quota(random));
  for (auto count = 5 + random.below(35); count > 0; --count)
    result.ops.push_back(make_op(random, with));
  return result;
}

} // namespace history

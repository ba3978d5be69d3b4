#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/placement.hpp>
#include <gpuactors/ledger/queue.hpp>
#include <gpuactors/ledger/wakes.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace gpuactors::ledger_detail {

namespace {

constexpr auto unlimited = std::numeric_limits<std::int64_t>::max();

// The dimensions of a shape's needs.
enum Dimension : std::size_t { devices_or_share, bytes, cpus, first_resource };

// What the bundles of a group take of a quota together. A group is measured by the devices of its largest bundle alone.
constexpr auto charge_of_group = bytes;

Measure measure_of(const ResourceRequest& request) {
  if (wants_whole_devices(request))
    return Measure::devices;
  if (request.gpus > Share{})
    return Measure::share;
  return request.memory_bytes > 0 ? Measure::bytes : Measure::cpus;
}

// Returns the amount in the request's measure.
std::int64_t amount_of(const ResourceRequest& request) {
  switch (measure_of(request)) {
  case Measure::devices:
    return static_cast<std::int64_t>(device_count(request));
  case Measure::share:
    return request.gpus.units();
  case Measure::bytes:
    return static_cast<std::int64_t>(request.memory_bytes);
  case Measure::cpus:
    break;
  }
  return request.cpus.units();
}

const ResourceRequest& largest(const std::vector<ResourceRequest>& bundles) {
  return *std::max_element(bundles.begin(), bundles.end(),
                           [](const auto& a, const auto& b) { return device_count(a) < device_count(b); });
}

std::string text_of(const std::string& label, const std::string& value) {
  return label + "=" + value;
}

} // namespace

struct Wakes::Search {
  const QueueKey* after;
  const Lens& lens;
  const Quotas& quotas;
  std::pair<QueueKey, Shape*> first{};

  void look(const WakeIndex& index, const Amounts& limits) {
    if (const auto found = index.next(after, limits);
        found.second != nullptr && (first.second == nullptr || found.first < first.first))
      first = found;
  }
};

Wakes::Place Wakes::place_of(const ShapeKey& key) {
  const auto& request = key.request;
  if (key.is_group())
    return {Place::Kind::group, {}, {}};
  if (request.parent)
    return {Place::Kind::loan, {}, {}};
  if (request.group)
    return {Place::Kind::bundle, {}, request.group};
  if (needs_node(request))
    return {Place::Kind::node, request.node, {}};
  for (const auto& [label, condition] : request.labels)
    if (condition.is_exact())
      return {Place::Kind::label, text_of(label, condition.values.front()), {}};
  return {};
}

std::pair<Wakes::Class, Amounts> Wakes::class_of(const Shape& shape) {
  const auto& key = *shape.key;
  const auto& request = key.is_group() ? largest(key.bundles) : key.request;
  std::pair<Class, Amounts> result;
  auto& [of, needs] = result;
  of.measure = measure_of(request);
  of.accelerator_type = request.accelerator_type;
  of.owner = key.request.owner;
  needs.fill(0);
  if (key.is_group()) {
    needs[devices_or_share] = amount_of(request);
    needs[charge_of_group] = of.owner.empty() ? 0 : shape.prospect.charge;
    return result;
  }
  of.labels = request.labels;
  of.type = request.type;
  if (of.measure == Measure::devices || of.measure == Measure::share)
    needs[devices_or_share] = amount_of(request);
  needs[bytes] = static_cast<std::int64_t>(request.memory_bytes);
  needs[cpus] = request.cpus.units();
  auto dimension = std::size_t{first_resource};
  for (const auto& [name, amount] : request.resources) {
    if (dimension == dimensions)
      break;
    of.resources.push_back(name);
    needs[dimension++] = amount.units();
  }
  for (std::size_t i = 0; i < dimensions; ++i)
    of.magnitude[i] = static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(needs[i])));
  return result;
}

void Wakes::insert(Shape& shape) {
  auto [of, needs] = class_of(shape);
  if (!of.owner.empty()) {
    auto& owned = owned_[of.owner];
    const auto most = most_charge(*shape.key);
    // The least need is the most charge: an index finds what is within limits, and here it is to be above one.
    owned.index.insert(shape.head(), {shape.prospect.charge, -most}, &shape);
    owned.charges.insert(most);
  }
  places_[place_of(*shape.key)][std::move(of)].insert(shape.head(), needs, &shape);
  ++size_;
}

void Wakes::erase(Shape& shape) {
  const auto classes = places_.find(place_of(*shape.key));
  GPUACTORS_LEDGER_CHECK(classes != places_.end(), "a shape is missing from the index that wakes it");
  const auto index = classes->second.find(class_of(shape).first);
  GPUACTORS_LEDGER_CHECK(index != classes->second.end(), "a shape is missing from the index that wakes it");
  index->second.erase(shape.head());
  --size_;
  if (index->second.empty())
    classes->second.erase(index);
  if (classes->second.empty())
    places_.erase(classes);
  if (const auto owned = owned_.find(shape.key->request.owner); owned != owned_.end()) {
    owned->second.index.erase(shape.head());
    owned->second.charges.erase(owned->second.charges.find(most_charge(*shape.key)));
    if (owned->second.charges.empty())
      owned_.erase(owned);
  }
}

std::pair<QueueKey, Shape*> Wakes::next_of(const std::string& owner, const QueueKey* after, std::int64_t room,
                                           std::int64_t had) const {
  const auto owned = owned_.find(owner);
  if (owned == owned_.end())
    return {{}, nullptr};
  return owned->second.index.next(after, {room, -(had + 1)});
}

bool Wakes::needs_more(const std::string& owner, std::int64_t room) const {
  const auto owned = owned_.find(owner);
  return owned != owned_.end() && *owned->second.charges.rbegin() > room;
}

// Returns the most that one request of the class can get from the pool.
Amounts Wakes::limits_in(const Pool& pool, const Class& of, const Lens& lens, const Quotas& quotas) {
  Amounts limits{};
  if (of.measure == Measure::cpus)
    limits[bytes] = unlimited;
  else
    for (const auto& slot : pool.slots) {
      const auto& spec = pool.node->device(slot);
      if (!slot.ok || !is_of_type(spec.accelerator_type, of.accelerator_type))
        continue;
      const auto share = lens.share(pool, slot);
      auto free_bytes = lens.bytes(pool, slot);
      if (of.measure == Measure::bytes)
        free_bytes = std::min(free_bytes, memory_for_share(spec.memory_bytes, share));
      limits[bytes] = std::max(limits[bytes], static_cast<std::int64_t>(free_bytes));
      limits[devices_or_share] = of.measure == Measure::devices
                                     ? limits[devices_or_share] + (share == Share::whole(1) ? 1 : 0)
                                     : std::max(limits[devices_or_share], share.units());
    }
  limits[cpus] = lens.cpus(pool).units();
  // Nor more than the quota has room for; of memory alone, the share depends on the device.
  const auto room = quotas.room_of(of.owner);
  if (of.measure == Measure::bytes)
    limits[bytes] = room > 0 ? limits[bytes] : 0;
  else if (of.measure != Measure::cpus)
    limits[devices_or_share] =
        std::min(limits[devices_or_share], of.measure == Measure::devices ? room / Share::one : room);
  for (std::size_t i = 0; i < of.resources.size(); ++i)
    limits[first_resource + i] = lens.resource(pool, of.resources[i]).units();
  return limits;
}

void Wakes::search(Search& search, const Place& place, const Pool& pool) const {
  const auto it = places_.find(place);
  if (it == places_.end())
    return;
  // Classes that differ only in magnitude are neighbours and share their limits.
  const Class* last = nullptr;
  bool barred = false;
  Amounts limits{};
  for (const auto& [of, index] : it->second) {
    if (last == nullptr || of.measure != last->measure || of.accelerator_type != last->accelerator_type
        || of.resources != last->resources || of.labels != last->labels || of.type != last->type
        || of.owner != last->owner) {
      barred = !has_type(pool.node->types, of.type) || !has_labels(*pool.node, of.labels);
      if (!barred)
        limits = limits_in(pool, of, search.lens, search.quotas);
    }
    last = &of;
    if (!barred)
      search.look(index, limits);
  }
}

std::pair<QueueKey, Shape*> Wakes::next(const QueueKey* after, const NodeTable& table, const Freed& freed,
                                        const Grown& grown, const Lens& lens, const Quotas& quotas) const {
  Search search{after, lens, quotas};
  if (const auto loans = places_.find({Place::Kind::loan, {}, {}}); loans != places_.end()) {
    Amounts any;
    any.fill(unlimited);
    for (const auto& [of, index] : loans->second)
      search.look(index, any);
  }
  if (const auto groups = places_.find({Place::Kind::group, {}, {}}); groups != places_.end())
    for (const auto& [of, index] : groups->second)
      search.look(index, {most_free(table, of.accelerator_type, of.measure, lens), quotas.room_of(of.owner), 0, 0, 0});
  for (const auto& [owner, had] : grown)
    if (const auto found = next_of(owner, after, quotas.room_of(owner), had);
        found.second != nullptr && (search.first.second == nullptr || found.first < search.first.first))
      search.first = found;
  for (const auto& [pool, group] : freed) {
    if (group) {
      this->search(search, {Place::Kind::bundle, {}, group}, *pool);
      continue;
    }
    const auto& node = *pool->node;
    if (!node.takes_leases())
      continue;
    this->search(search, {}, *pool);
    this->search(search, {Place::Kind::node, node.spec.name, {}}, *pool);
    for (const auto& [label, value] : node.spec.labels)
      this->search(search, {Place::Kind::label, text_of(label, value), {}}, *pool);
  }
  return search.first;
}

} // namespace gpuactors::ledger_detail

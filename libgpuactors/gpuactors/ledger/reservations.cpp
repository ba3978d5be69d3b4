// Reservations: they keep a large request from waiting forever behind a stream of small ones.
//
// In each priority, the oldest blocked request gets a reservation of a place once it has waited `reservation_after`, or
// once `reservation_passes` grants behind it took resources that it could have used. Requests behind it do not get
// resources that the reserved place needs; requests before it, and those of higher priority, do. The reservation ends
// when the request leaves the queue or after `reservation_for`; then the count starts anew, and the next attempt
// prefers a place that was not tried yet.
#include <gpuactors/ledger/group_placement.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace gpuactors {

using ledger_detail::device_count;
using ledger_detail::is_of_type;
using ledger_detail::need_on;
using ledger_detail::place_in;
using ledger_detail::wants_devices;

namespace {

using ledger_detail::Claim;
using ledger_detail::Lens;
using ledger_detail::Pool;
using ledger_detail::ReservedPlace;

// The cost of a place: previous reservations in vain, then what other leases still have to give back: the share of
// devices, and of cpus and each custom resource the missing part of what is asked, in the same units.
using Cost = std::pair<std::int64_t, std::int64_t>;

constexpr int besides_devices = -1;

int times_in_vain(const Claim& claim, const Pool& pool, int index) {
  const auto vain = claim.vain.find({pool.id, index});
  return vain == claim.vain.end() ? 0 : vain->second;
}

std::int64_t missing_part(Share asked, Share free) {
  if (asked <= std::max(free, Share{}))
    return 0;
  const auto missing = asked - std::max(free, Share{});
  return share_for_memory(static_cast<std::uint64_t>(asked.units()), static_cast<std::uint64_t>(missing.units()))
      .units();
}

std::int64_t missing_besides_devices(const ReservedPlace& place) {
  const auto& pool = *place.at.pool;
  auto missing = missing_part(place.cpus, pool.free_cpus);
  for (const auto& [name, amount] : place.resources) {
    const auto free = pool.free_resources.find(name);
    missing += missing_part(amount, free == pool.free_resources.end() ? Share{} : free->second);
  }
  return missing;
}

Cost cost_of(const ReservedPlace& place, const Claim& claim) {
  const auto& pool = *place.at.pool;
  Cost cost{times_in_vain(claim, pool, besides_devices), missing_besides_devices(place)};
  for (const auto& device : place.at.devices) {
    cost.first += times_in_vain(claim, pool, device.index);
    cost.second += std::max(device.share - pool.slot(device.index)->free_share, Share{}).units();
  }
  return cost;
}

// Counts what is still short in a reservation that ends: devices, and what a pool has besides them. If nothing is short
// by itself, the places do not go together: the pools count.
void count_in_vain(Claim& claim) {
  bool any = false;
  for (const auto& place : claim.reservation->places) {
    const auto& pool = *place.at.pool;
    for (const auto& device : place.at.devices) {
      const auto& slot = *pool.slot(device.index);
      if (slot.free_share >= device.share && slot.free_bytes >= device.memory_bytes)
        continue;
      ++claim.vain[{pool.id, device.index}];
      any = true;
    }
    if (missing_besides_devices(place) == 0)
      continue;
    ++claim.vain[{pool.id, besides_devices}];
    any = true;
  }
  if (any)
    return;
  for (const auto& place : claim.reservation->places)
    ++claim.vain[{place.at.pool->id, besides_devices}];
}

// A device, or all of a node, that a group has reserved in vain.
struct TriedInVain {
  int times = 0;
  std::int64_t missing = 0;
  const Pool* pool = nullptr;
  std::vector<DeviceGrant> devices;
  Share cpus;
  const std::map<std::string, Share>* resources = nullptr;

  [[nodiscard]] ledger_detail::Hold hold() const {
    return {pool, &devices, cpus, resources};
  }
};

// Returns what was reserved in vain, that which is most worth another try first.
std::vector<TriedInVain> tried_in_vain(const ledger_detail::NodeTable& table, const Claim& claim) {
  static const std::map<std::string, Share> no_resources;
  std::vector<TriedInVain> tried;
  for (const auto& [name, node] : table.nodes()) {
    const auto& pool = node.pool;
    const auto first = claim.vain.lower_bound({pool.id, besides_devices});
    if (first == claim.vain.end() || first->first.first != pool.id)
      continue;
    std::vector<DeviceGrant> all;
    for (const auto& slot : pool.slots) {
      all.push_back({slot.index, slot.share, slot.bytes});
      if (const auto times = times_in_vain(claim, pool, slot.index); times > 0)
        tried.push_back({times, (slot.share - slot.free_share).units(), &pool, {all.back()}, {}, &no_resources});
    }
    if (const auto times = times_in_vain(claim, pool, besides_devices); times > 0)
      tried.push_back({times, 0, &pool, std::move(all), pool.cpus, &pool.resources});
  }
  std::stable_sort(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
    return std::tie(a.times, a.missing) < std::tie(b.times, b.missing);
  });
  return tried;
}

std::optional<std::pair<Cost, ReservedPlace>> best_place_in(Pool& pool, const ResourceRequest& request,
                                                            const Claim& claim, const Lens& lens) {
  if (!place_in(pool, request, lens))
    return std::nullopt;
  ReservedPlace place{{&pool, {}}, request.cpus, request.resources};
  // Ranks the devices individually: the cheapest first, ties by index.
  std::vector<std::tuple<Cost, int, DeviceGrant>> ranked;
  for (const auto& slot : pool.slots) {
    const auto& spec = pool.node->device(slot);
    const auto need = need_on(request, spec.memory_bytes);
    if (!wants_devices(request) || !slot.ok || !fits(pool, slot, need, lens)
        || !is_of_type(spec.accelerator_type, request.accelerator_type))
      continue;
    const DeviceGrant device{slot.index, need.share, need.bytes};
    ranked.emplace_back(cost_of({{&pool, {device}}, {}, {}}, claim), slot.index, device);
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (std::size_t i = 0; i < device_count(request); ++i)
    place.at.devices.push_back(std::get<2>(ranked[i]));
  const auto cost = cost_of(place, claim);
  return std::pair{cost, std::move(place)};
}

} // namespace

Ledger::Lens Ledger::binding(QueueKey key) const {
  Lens lens;
  for (const auto& [priority, claim] : claims_)
    if (claim.reservation && claim.holder < key)
      for (const auto& place : claim.reservation->places)
        lens.holds.push_back({place.at.pool, &place.at.devices, place.cpus, &place.resources});
  return lens;
}

// Visits, in each priority, the oldest blocked entry for which a place can be reserved: none without room in its
// owner's quota, because a place is of no use to it.
template <class Visit>
void Ledger::for_each_oldest(Visit visit) {
  std::map<int, QueueKey, std::greater<>> oldest;
  const auto& heads = queue_.heads();
  for (auto it = heads.begin(); it != heads.end();) {
    const auto priority = it->first.priority;
    while (it != heads.end() && it->first.priority == priority && !it->second->prospect.reservable)
      ++it;
    if (it != heads.end() && it->first.priority == priority)
      oldest.emplace(priority, it->first);
    it = heads.upper_bound(QueueKey::last_of(priority));
  }
  const auto& wakes = queue_.wakes();
  for (const auto& [owner, shapes] : wakes.owned()) {
    const auto room = quotas_.room_of(owner);
    for (auto [key, shape] = wakes.next_of(owner, nullptr, room); shape != nullptr;) {
      auto behind = key;
      if (shape->prospect.reservable) {
        const auto [it, added] = oldest.emplace(key.priority, key);
        it->second = std::min(it->second, key);
        behind = QueueKey::last_of(key.priority);
      }
      std::tie(key, shape) = wakes.next_of(owner, &behind, room);
    }
  }
  for (const auto& [priority, key] : oldest)
    visit(*queue_.find(key));
}

Ledger::Claim& Ledger::claim_of(const Entry& entry) {
  auto& claim = claims_[entry.key.priority];
  if (claim.holder != entry.key) {
    end_reservation(claim);
    claim = Claim{entry.key, entry.since, 0, std::nullopt, {}};
  }
  return claim;
}

void Ledger::sync_claims() {
  if (claims_.empty())
    return;
  std::set<QueueKey> oldest;
  for_each_oldest([&](const Entry& entry) { oldest.insert(entry.key); });
  for (auto it = claims_.begin(); it != claims_.end();) {
    if (oldest.count(it->second.holder) > 0) {
      ++it;
      continue;
    }
    end_reservation(it->second);
    it = claims_.erase(it);
  }
}

void Ledger::end_reservation(Claim& claim) {
  if (!claim.reservation)
    return;
  for (const auto& place : claim.reservation->places)
    note_freed(*place.at.pool, claim.reservation->group);
  claim.reservation.reset();
}

bool Ledger::could_have_used(const ShapeKey& key, const Fit& granted) const {
  const auto& node = *granted.pool->node;
  const auto could = [&](const ResourceRequest& request) {
    if (!admits(node, request))
      return false;
    return !wants_devices(request)
           || std::any_of(granted.devices.begin(), granted.devices.end(), [&](const DeviceGrant& device) {
                const auto& spec = node.spec.devices[static_cast<std::size_t>(device.index)];
                return is_of_type(spec.accelerator_type, request.accelerator_type);
              });
  };
  if (key.is_group())
    return granted.pool == &node.pool && std::any_of(key.bundles.begin(), key.bundles.end(), could);
  if (!key.request.group)
    return granted.pool == &node.pool && could(key.request);
  const auto& bundles = groups_.at(key.request.group).bundles;
  return could(key.request) && std::any_of(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
           return bundle.pool.get() == granted.pool;
         });
}

void Ledger::count_pass(QueueKey key, const Fit& granted) {
  for_each_oldest([&](const Entry& entry) {
    if (!(entry.key < key) || !could_have_used(*entry.shape->key, granted))
      return;
    auto& claim = claim_of(entry);
    if (!claim.reservation && ++claim.passes >= options_.reservation_passes)
      reserve(entry);
  });
}

bool Ledger::expire_reservations() {
  bool any = false;
  for (auto& [priority, claim] : claims_) {
    if (!claim.reservation || claim.reservation->until > now_)
      continue;
    count_in_vain(claim);
    end_reservation(claim);
    claim.count_anew(now_);
    any = true;
  }
  return any;
}

void Ledger::make_due_reservations() {
  for_each_oldest([&](const Entry& entry) {
    if (const auto& claim = claim_of(entry); !claim.reservation && now_ - claim.since >= options_.reservation_after)
      reserve(entry);
  });
}

void Ledger::reserve(const Entry& entry) {
  auto& claim = claim_of(entry);
  auto places = choose_target(entry, claim);
  if (places.empty()) {
    // Every suitable place is reserved for others: tries again after the same time.
    claim.count_anew(now_);
    return;
  }
  claim.reservation = ledger_detail::Reservation{std::move(places), deadline_after(now_, options_.reservation_for),
                                                 entry.shape->key->request.group};
}

Ledger::Lens Ledger::target_lens(const Entry& entry) const {
  auto lens = binding(entry.key);
  lens.amount = Lens::Amount::all;
  lens.limit_share(quotas_.room_of(entry.shape->key->request.owner));
  for (const auto& hold : kept_holds(entry.shape->key->keeper))
    lens.holds.push_back(hold);
  if (const auto parent = entry.shape->key->request.parent)
    for (const auto& hold : ancestor_holds(parent))
      lens.holds.push_back(hold);
  return lens;
}

std::vector<Ledger::ReservedPlace> Ledger::choose_target(const Entry& entry, const Claim& claim) {
  const auto& key = *entry.shape->key;
  if (key.is_group())
    return choose_group_target(entry, claim);
  const auto lens = target_lens(entry);
  const auto& request = key.request;
  std::optional<std::pair<Cost, ReservedPlace>> best;
  const auto consider = [&](Pool& pool) {
    if (auto place = best_place_in(pool, request, claim, lens); place && (!best || place->first < best->first))
      best = std::move(place);
  };
  if (request.group) {
    for (auto& bundle : groups_.at(request.group).bundles)
      if (bundle.serves(request))
        consider(*bundle.pool);
  } else {
    for (auto& [name, node] : table_.nodes())
      if (node.takes_leases())
        consider(node.pool);
  }
  if (!best)
    return {};
  return {std::move(best->second)};
}

std::vector<Ledger::ReservedPlace> Ledger::choose_group_target(const Entry& entry, const Claim& claim) {
  const auto& key = *entry.shape->key;
  const auto lens = target_lens(entry);
  const auto tried = tried_in_vain(table_, claim);
  std::vector<ReservedPlace> places;
  // Without all that was in vain but the first `back` of it.
  const auto choose = [&](std::size_t back) {
    auto others = lens;
    for (auto i = back; i < tried.size(); ++i)
      others.holds.push_back(tried[i].hold());
    auto found = place_group(table_, key.bundles, key.strategy, others, kept_nodes(key.keeper));
    // What was found may take more of a quota than there is: to hold it back would help nobody.
    if (!found || ledger_detail::charge_of(*found) > quotas_.room_of(key.request.owner))
      return false;
    places.clear();
    for (std::size_t i = 0; i < found->size(); ++i)
      places.push_back({std::move((*found)[i]), key.bundles[i].cpus, key.bundles[i].resources});
    return true;
  };
  if (choose(0) || tried.empty() || !choose(tried.size()))
    return places;
  // Each try may take as long as a search for a group may.
  constexpr int most_tries = 3;
  std::size_t too_few = 0;
  auto enough = tried.size();
  for (int tries = 0; tries < most_tries && too_few + 1 < enough; ++tries) {
    const auto middle = std::midpoint(too_few, enough);
    (choose(middle) ? enough : too_few) = middle;
  }
  return places;
}

void Ledger::move_reservations() {
  const auto given_back = std::exchange(given_back_, {});
  if (given_back.empty())
    return;
  // In the order of the queue: the claim of a higher priority chooses first.
  for (auto it = claims_.rbegin(); it != claims_.rend(); ++it) {
    auto& claim = it->second;
    const auto& entry = *queue_.find(claim.holder);
    const auto& key = *entry.shape->key;
    if (!claim.reservation || key.is_group())
      continue;
    const auto lens = target_lens(entry);
    auto& place = claim.reservation->places.front();
    for (auto* pool : given_back) {
      if (!may_draw_from(*pool, key.request))
        continue;
      if (auto other = best_place_in(*pool, key.request, claim, lens); other && other->first < cost_of(place, claim)) {
        note_freed(*place.at.pool, key.request.group);
        place = std::move(other->second);
      }
    }
  }
}

bool Ledger::may_draw_from(const Pool& pool, const ResourceRequest& request) const {
  if (!request.group)
    return &pool == &pool.node->pool && pool.node->takes_leases();
  const auto& bundles = groups_.at(request.group).bundles;
  return std::any_of(bundles.begin(), bundles.end(),
                     [&](const Bundle& bundle) { return bundle.pool.get() == &pool && bundle.serves(request); });
}

template <class Matches>
void Ledger::drop_reservations_if(Matches matches) {
  for (auto& [priority, claim] : claims_)
    if (claim.reservation
        && std::any_of(claim.reservation->places.begin(), claim.reservation->places.end(),
                       [&](const ReservedPlace& place) { return matches(*place.at.pool); })) {
      end_reservation(claim);
      claim.count_anew(now_);
    }
}

void Ledger::drop_reservations_on(const Node& node) {
  drop_reservations_if([&](const Pool& pool) { return pool.node == &node; });
}

void Ledger::drop_reservations_in(const Pool& pool) {
  drop_reservations_if([&](const Pool& other) { return &other == &pool; });
}

} // namespace gpuactors

// The naive scheduler's reservations: for whom a place is held back, where, and what follows for those behind.
#include <property/model.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace model {

namespace {

std::int64_t missing_part(Share asked, Share free) {
  __extension__ using Wide = unsigned __int128;
  if (asked <= free)
    return 0;
  const auto missing = static_cast<Wide>((asked - free).units());
  const auto all = static_cast<Wide>(asked.units());
  return static_cast<std::int64_t>((missing * static_cast<Wide>(Share::one) + all - 1) / all);
}

std::int64_t missing_besides_devices(const Amounts& wanted, const Amounts& free) {
  auto missing = missing_part(wanted.cpus, free.cpus);
  for (const auto& [name, amount] : wanted.resources)
    missing += missing_part(amount, free.resources.count(name) > 0 ? free.resources.at(name) : Share{});
  return missing;
}

} // namespace

// Of each priority, the first in the queue that a place could be held back for.
std::map<int, const Waiting*, std::greater<>> Model::oldest() const {
  std::map<int, const Waiting*, std::greater<>> result;
  for (const auto& waiting : queue_) {
    if (waiting.group != 0 || (result.count(waiting.priority) > 0 && result[waiting.priority]->age < waiting.age))
      continue;
    const auto& r = waiting.request;
    const auto taken = held_by_ancestors(r.parent.value());
    bool somewhere = false;
    if (r.group) {
      for (const auto& [number, bundle] : groups_.at(r.group.value()).bundles)
        somewhere |= draws_from(r, bundle.bundle)
                     && choose({bundle.node, r.group.value(), bundle.bundle, 0}, r, true, taken).has_value();
    } else {
      for (const auto& [name, node] : nodes_)
        somewhere |= !node.draining && least_of(r) <= room_of(r.owner) && least_of(r) <= most_for(r)
                     && choose({name, 0, 0, 0}, r, true, taken, most_for(r)).has_value();
    }
    if (somewhere)
      result[waiting.priority] = &waiting;
  }
  return result;
}

void Model::sync_reservations() {
  const auto first = oldest();
  for (auto it = reservations_.begin(); it != reservations_.end();) {
    const auto at = first.find(it->first);
    it = at != first.end() && at->second->age == it->second.holder_age ? std::next(it) : reservations_.erase(it);
  }
}

std::vector<Taken> Model::held_back(const Waiting& waiting) const {
  std::vector<Taken> taken;
  for (const auto& [priority, reservation] : reservations_)
    for (const auto& holder : queue_)
      if (reservation.held && holder.age == reservation.holder_age && waits_before(holder, waiting))
        taken.push_back(reservation.taken);
  return taken;
}

bool Model::could_use(const Waiting& waiting, const Source& source, const std::vector<DeviceGrant>& devices) const {
  const auto& r = waiting.request;
  const auto& node = nodes_.at(source.node);
  if (!is_right_node(node, r) || r.group.value() != source.group)
    return false;
  const auto right = [&](int index) {
    return r.accelerator_type.empty()
           || node.spec.devices.at(static_cast<std::size_t>(index)).accelerator_type == r.accelerator_type;
  };
  if (r.gpus.units() > 0 || r.memory_bytes > 0)
    return std::any_of(devices.begin(), devices.end(), [&](const DeviceGrant& device) { return right(device.index); });
  if (r.accelerator_type.empty())
    return true;
  for (int i = 0; i < static_cast<int>(node.spec.devices.size()); ++i)
    if (node.failed.count(i) == 0 && right(i))
      return true;
  return false;
}

void Model::count_pass(const Waiting& granted, const Source& source, const std::vector<DeviceGrant>& devices) {
  for (const auto& [priority, waiting] : oldest()) {
    if (!waits_before(*waiting, granted) || !could_use(*waiting, source, devices))
      continue;
    auto& reservation = reservations_[priority];
    if (reservation.holder_age != waiting->age) {
      reservation = Reservation{};
      reservation.holder_age = waiting->age;
      reservation.since = waiting->since;
    }
    if (!reservation.held && ++reservation.passes >= options_.reservation_passes)
      reserve(*waiting);
  }
}

// The place where the least has to come back, after those that were held back in vain.
void Model::reserve(const Waiting& waiting) {
  const auto& r = waiting.request;
  auto& reservation = reservations_.at(waiting.priority);
  std::vector<Source> sources;
  if (r.group) {
    for (const auto& [number, bundle] : groups_.at(r.group.value()).bundles)
      if (draws_from(r, bundle.bundle))
        sources.push_back({bundle.node, r.group.value(), bundle.bundle, 0});
  } else {
    for (const auto& [name, node] : nodes_)
      if (!node.draining)
        sources.push_back({name, 0, 0, 0});
  }
  std::optional<std::pair<std::int64_t, std::int64_t>> least;
  for (const auto& source : sources) {
    const auto best = best_place_in(source, waiting, reservation);
    if (!best || (least && !(best->first < *least)))
      continue;
    least = best->first;
    reservation.taken = best->second;
    reservation.held = true;
    reservation.until = now_ + options_.reservation_for;
  }
  if (!least) {
    reservation.since = now_;
    reservation.passes = 0;
  }
}

std::pair<std::int64_t, std::int64_t> Model::cost_of(const Taken& place, const Reservation& reservation) const {
  const auto free = left_of(place.source, false, {});
  std::pair<std::int64_t, std::int64_t> cost{0, missing_besides_devices(place.amounts, free)};
  if (const auto vain = reservation.vain.find({place.source, -1}); vain != reservation.vain.end())
    cost.first += vain->second;
  for (const auto& wanted : place.amounts.devices) {
    if (const auto vain = reservation.vain.find({place.source, wanted.index}); vain != reservation.vain.end())
      cost.first += vain->second;
    for (const auto& device : free.devices)
      if (device.index == wanted.index)
        cost.second += std::max<std::int64_t>(0, (wanted.share - device.share).units());
  }
  return cost;
}

std::optional<std::pair<std::pair<std::int64_t, std::int64_t>, Taken>>
Model::best_place_in(const Source& source, const Waiting& waiting, const Reservation& reservation) const {
  const auto& r = waiting.request;
  auto taken = held_back(waiting);
  for (auto& more : held_by_ancestors(r.parent.value()))
    taken.push_back(std::move(more));
  const auto most = r.group ? std::int64_t{Share::one} : room_of(r.owner);
  if (!choose(source, r, true, taken, most))
    return std::nullopt;
  Taken place{source, {{}, r.cpus, r.resources}};
  std::vector<std::tuple<std::pair<std::int64_t, std::int64_t>, int, DeviceGrant>> ranked;
  if (r.gpus.units() > 0 || r.memory_bytes > 0)
    for (const auto& device : all_of(source).devices) {
      auto one = r;
      one.gpus = std::min(r.gpus, Share::whole(1));
      // Hide the others.
      auto hidden = taken;
      for (const auto& other : all_of(source).devices)
        if (other.index != device.index)
          hidden.push_back({source, {{other}, {}, {}}});
      if (const auto grant = choose(source, one, true, hidden, most))
        ranked.emplace_back(cost_of({source, {*grant, {}, {}}}, reservation), device.index, grant->front());
    }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, r.gpus.units() / Share::one));
  for (std::size_t i = 0; i < count && !ranked.empty(); ++i)
    place.amounts.devices.push_back(std::get<2>(ranked.at(i)));
  return std::pair{cost_of(place, reservation), place};
}

// Something has come back: is less missing there?
void Model::move_reservations() {
  const auto freed = std::exchange(freed_, {});
  for (auto it = reservations_.rbegin(); it != reservations_.rend(); ++it) {
    auto& reservation = it->second;
    const auto holder =
        std::find_if(queue_.begin(), queue_.end(), [&](const Waiting& w) { return w.age == reservation.holder_age; });
    if (!reservation.held || holder == queue_.end())
      continue;
    const auto& r = holder->request;
    for (const auto& source : freed) {
      const bool there =
          nodes_.count(source.node) > 0
          && (source.group == 0
              || (groups_.count(source.group) > 0 && groups_.at(source.group).bundles.count(source.bundle) > 0));
      if (!there || source.group != r.group.value() || (source.group == 0 && nodes_.at(source.node).draining)
          || (source.group != 0 && !draws_from(r, source.bundle)))
        continue;
      const auto best = best_place_in(source, *holder, reservation);
      if (best && best->first < cost_of(reservation.taken, reservation))
        reservation.taken = best->second;
    }
  }
}

// What is short, by device or (as -1) besides devices; if nothing is, the place.
void Model::count_in_vain(Reservation& reservation) const {
  const auto& [source, wanted] = reservation.taken;
  const auto free = left_of(source, false, {});
  bool any = false;
  for (const auto& device : wanted.devices)
    for (const auto& left : free.devices)
      if (left.index == device.index && (left.share < device.share || left.memory_bytes < device.memory_bytes)) {
        ++reservation.vain[{source, device.index}];
        any = true;
      }
  if (!any || missing_besides_devices(wanted, free) > 0)
    ++reservation.vain[{source, -1}];
}

void Model::drop_reservations_in(const Source& source) {
  for (auto& [priority, reservation] : reservations_)
    if (reservation.held && reservation.taken.source == source) {
      reservation.held = false;
      reservation.since = now_;
      reservation.passes = 0;
    }
}

void Model::drop_reservations_on(const std::string& name) {
  for (auto& [priority, reservation] : reservations_)
    if (reservation.held && reservation.taken.source.node == name) {
      reservation.held = false;
      reservation.since = now_;
      reservation.passes = 0;
    }
}

std::string Model::broken_promise(const std::vector<gpuactors::ReservationView>& reservations) const {
  const auto first = oldest();
  std::map<int, Taken> held;
  for (const auto& view : reservations) {
    const auto holder = first.find(view.priority);
    if (holder == first.end() || holder->second->id != view.request.value())
      return "a place is held back for request " + std::to_string(view.request.value()) + ", which is not the oldest";
    if (now_ > view.until)
      return "a place is held back for longer than its time";
    const auto& place = view.places.at(0);
    const Source source{place.node, holder->second->request.group.value(), 0, 0};
    if (!held.emplace(view.priority, Taken{source, {place.devices, place.cpus, place.resources}}).second)
      return "two places are held back for one priority";
  }
  for (const auto& waiting : queue_) {
    if (waiting.group != 0 || waiting.request.group)
      continue;
    std::vector<Taken> before;
    for (const auto& [priority, taken] : held)
      if (waits_before(*first.at(priority), waiting) && taken.source.group == 0)
        before.push_back(taken);
    for (const auto& [name, node] : nodes_)
      if (const auto room = room_of(waiting.request.owner);
          !node.draining && least_of(waiting.request) <= room
          && choose({name, 0, 0, 0}, waiting.request, false, before, room))
        return "request " + std::to_string(waiting.id) + " waits although it fits";
  }
  return {};
}

} // namespace model

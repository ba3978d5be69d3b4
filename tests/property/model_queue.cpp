// The naive scheduler's queue: who is served when, and who is answered in vain.
#include <property/model.hpp>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace model {

using gpuactors::never;

// -- order -----------------------------------------------------------------------------------------

bool Model::waits_before(const Waiting& a, const Waiting& b) const {
  return a.priority != b.priority ? a.priority > b.priority : a.age < b.age;
}

void Model::forget(std::uint64_t id, std::uint64_t group) {
  for (const auto& waiting : queue_)
    if (waiting.id == id && waiting.group == group)
      std::erase_if(reservations_, [&](const auto& item) { return item.second.holder_age == waiting.age; });
  std::erase_if(queue_, [&](const Waiting& w) { return w.id == id && w.group == group; });
}

// -- quotas ----------------------------------------------------------------------------------------

std::int64_t Model::used_by(const std::string& owner) const {
  std::int64_t sum = 0;
  for (const auto& [id, held] : held_)
    if (held.request.owner == owner && held.lender == 0 && held.source.group == 0)
      for (const auto& device : held.amounts.devices)
        sum += device.share.units();
  for (const auto& [id, rest] : remains_)
    if (rest.request.owner == owner && rest.lender == 0)
      for (const auto& device : rest.amounts.devices)
        sum += device.share.units();
  for (const auto& [id, group] : groups_)
    if (group.request.owner == owner)
      for (const auto& [number, bundle] : group.bundles)
        for (const auto& device : bundle.devices)
          sum += device.share.units();
  return sum;
}

std::int64_t Model::limit_of(const std::string& owner) const {
  const auto own = limits_.count(owner) > 0 ? owner : std::string{"*"};
  return owner.empty() || limits_.count(own) == 0 ? std::numeric_limits<std::int64_t>::max() : limits_.at(own);
}

std::int64_t Model::room_of(const std::string& owner) const {
  const auto limit = limit_of(owner);
  return limit == std::numeric_limits<std::int64_t>::max() ? limit : std::max<std::int64_t>(0, limit - used_by(owner));
}

// What the ancestors keep of it while they wait is not to be had.
std::int64_t Model::most_for(const ResourceRequest& r) const {
  auto limit = limit_of(r.owner);
  if (limit == std::numeric_limits<std::int64_t>::max())
    return limit;
  std::set<std::uint64_t> leases;
  std::set<std::uint64_t> groups;
  for (auto id : ancestors(r.parent.value()))
    for (; id != 0; id = held_.at(id).lender) {
      leases.insert(id);
      groups.insert(held_.at(id).source.group);
    }
  for (const auto id : leases)
    if (const auto& held = held_.at(id); held.request.owner == r.owner && held.lender == 0 && held.source.group == 0)
      for (const auto& device : held.amounts.devices)
        limit -= device.share.units();
  for (const auto id : groups)
    if (id != 0 && groups_.at(id).request.owner == r.owner)
      for (const auto& [number, bundle] : groups_.at(id).bundles)
        for (const auto& device : bundle.devices)
          limit -= device.share.units();
  return std::max<std::int64_t>(0, limit);
}

std::int64_t Model::least_of(const Waiting& waiting) const {
  if (waiting.group == 0)
    return least_of(waiting.request);
  std::int64_t sum = 0;
  const auto& group = groups_.at(waiting.group);
  for (int number = 0; number < static_cast<int>(group.request.bundles.size()); ++number)
    if (group.bundles.count(number) == 0 && group.gone.count(number) == 0)
      sum += least_of(group.request.bundles[static_cast<std::size_t>(number)]);
  return sum;
}

std::string Model::owner_of(const Waiting& waiting) const {
  return waiting.group != 0      ? groups_.at(waiting.group).request.owner
         : waiting.request.group ? std::string{}
                                 : waiting.request.owner;
}

bool Model::is_over_quota(std::uint64_t id, std::uint64_t group) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Waiting& w) {
    return w.id == id && w.group == group && least_of(w) > room_of(owner_of(w));
  });
}

bool Model::waits_for_owner(std::uint64_t id, std::uint64_t group) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Waiting& w) {
    return w.id == id && w.group == group && least_of(w) > room_of(owner_of(w)) && is_feasible(w, false);
  });
}

// -- grants ----------------------------------------------------------------------------------------

bool Model::try_grant(const Waiting& waiting, const std::vector<Event>& events, Outcomes& out) {
  if (waiting.group != 0) {
    if (!adopt_group(waiting.group, events, out))
      return false;
    forget(0, waiting.group);
    return true;
  }
  std::uint64_t lender = 0;
  const auto place = find_place(waiting, lender);
  if (!place)
    return false;
  const auto& r = waiting.request;
  held_[waiting.id] = Held{r, place->source, place->amounts, lender, r.parent.value(), false};
  out.push_back({Event::Kind::granted, waiting.id, 0, place_text(place->source.node, place->amounts.devices)});
  forget(waiting.id, 0);
  charged_ = charged_ || (lender == 0 && !r.group && !r.owner.empty());
  if (lender == 0)
    count_pass(waiting, place->source, place->amounts.devices);
  return true;
}

void Model::enqueue(Waiting waiting, const std::vector<Event>& events, Outcomes& out) {
  if (try_grant(waiting, events, out))
    return;
  const bool queue = waiting.group != 0 ? groups_.at(waiting.group).request.queue : waiting.request.queue;
  auto kind = Event::Kind::pending;
  if (!is_feasible(waiting) && !waits_for_nodes(waiting))
    kind = Event::Kind::infeasible;
  else if (!queue)
    kind = Event::Kind::rejected;
  out.push_back({kind, waiting.id, waiting.group, {}});
  if (kind == Event::Kind::pending)
    queue_.push_back(waiting);
  else if (waiting.group != 0)
    groups_.erase(waiting.group);
}

// A group that lost a bundle waits however long it takes.
bool Model::waits_for_nodes(const Waiting& waiting) const {
  if (waiting.group == 0)
    return waiting.request.wait_for_nodes;
  const auto& group = groups_.at(waiting.group);
  return group.placed || group.request.wait_for_nodes;
}

// Answers those that can never be satisfied any more, then serves the queue until nothing more fits.
void Model::settle(const std::vector<Event>& events, Outcomes& out) {
  do {
    charged_ = false;
    serve(events, out);
  } while (charged_);
}

void Model::serve(const std::vector<Event>& events, Outcomes& out) {
  shrink_groups(out);
  answer_vain(out);
  sync_reservations();
  move_reservations();
  bool again = true;
  while (again) {
    again = false;
    auto order = queue_;
    std::sort(order.begin(), order.end(), [this](const auto& a, const auto& b) { return waits_before(a, b); });
    for (const auto& waiting : order) {
      const auto still =
          std::find_if(queue_.begin(), queue_.end(), [&](const Waiting& w) { return w.age == waiting.age; });
      if (still == queue_.end() || !is_feasible(*still))
        continue;
      if (!try_grant(Waiting{*still}, events, out) || waiting.group == 0)
        continue;
      // What waited for the group may turn out to be too large for it.
      answer_vain(out);
      again = true;
    }
  }
}

// In the order of the queue, again and again: the end of a group ends leases, and with them hopes and hindrances.
void Model::answer_vain(Outcomes& out) {
  bool again = true;
  while (again) {
    again = false;
    // A request whose parent has ended is an ordinary one.
    for (auto& waiting : queue_)
      if (waiting.request.parent && ancestors(waiting.request.parent.value()).empty())
        waiting.request.parent = {};
    auto order = queue_;
    std::sort(order.begin(), order.end(), [this](const auto& a, const auto& b) { return waits_before(a, b); });
    std::vector<std::uint64_t> vain;
    for (const auto& waiting : order)
      if (!waits_for_nodes(waiting) && !is_feasible(waiting))
        vain.push_back(waiting.age);
    for (const auto age : vain) {
      const auto it = std::find_if(queue_.begin(), queue_.end(), [age](const auto& w) { return w.age == age; });
      if (it == queue_.end() || is_feasible(*it))
        continue;
      const auto waiting = *it;
      again = true;
      out.push_back({Event::Kind::infeasible, waiting.id, waiting.group, {}});
      forget(waiting.id, waiting.group);
      if (waiting.group != 0)
        end_group(waiting.group, out);
    }
  }
}

// -- ends ------------------------------------------------------------------------------------------

void Model::end(std::uint64_t id) {
  held_.at(id).ended = true;
  // Whatever has ended and lends nothing any more is gone, and with it perhaps its lender.
  bool again = true;
  while (again) {
    again = false;
    for (auto it = held_.begin(); it != held_.end(); ++it) {
      const bool lends =
          std::any_of(held_.begin(), held_.end(), [&](const auto& other) { return other.second.lender == it->first; });
      if (!it->second.ended || lends)
        continue;
      if (it->second.lender == 0)
        freed_.push_back(it->second.source);
      if (const auto& source = it->second.source; source.group != 0 && source.lease == 0)
        groups_.at(source.group).left.insert(source.bundle);
      const auto gone = held_.extract(it);
      if (gone.mapped().stays)
        keep_rest(gone.key(), gone.mapped(), gone.mapped().lender);
      keep_rests_within(gone.key(), gone.mapped());
      again = true;
      break;
    }
  }
}

void Model::lose(const std::set<std::uint64_t>& ids, Outcomes& out) {
  for (const auto id : ids)
    if (held_.count(id) > 0 && !held_.at(id).ended)
      out.push_back({Event::Kind::lost, id, 0, {}});
  for (auto id = ids.rbegin(); id != ids.rend(); ++id)
    if (held_.count(*id) > 0 && !held_.at(*id).ended)
      end(*id);
}

void Model::end_group(std::uint64_t id, Outcomes& out) {
  lose(held_in(id, [](int) { return true; }), out);
  const auto order = queue_;
  for (const auto& waiting : order)
    if (waiting.request.group.value() == id && waiting.group == 0) {
      out.push_back({Event::Kind::rejected, waiting.id, 0, {}});
      forget(waiting.id, 0);
    }
  for (const auto& [number, bundle] : groups_.at(id).bundles)
    give_back(id, bundle);
  groups_.erase(id);
}

void Model::give_back(std::uint64_t group, const BundleGrant& bundle) {
  drop_reservations_in({bundle.node, group, bundle.bundle, 0});
  freed_.push_back({bundle.node, 0, 0, 0});
}

void Model::lose_on(const std::string& name, std::optional<int> index, Outcomes& out) {
  const auto touches = [&](const std::string& node, const std::vector<DeviceGrant>& devices) {
    return node == name && (!index || std::any_of(devices.begin(), devices.end(), [&](const DeviceGrant& device) {
             return device.index == *index;
           }));
  };
  std::set<std::uint64_t> ids;
  for (const auto& [id, held] : held_)
    if (touches(held.source.node, held.amounts.devices))
      ids.insert(id);
  lose(ids, out);
  std::vector<std::uint64_t> groups;
  for (const auto& [id, group] : groups_)
    groups.push_back(id);
  for (const auto id : groups) {
    std::set<int> lost;
    for (const auto& [number, bundle] : groups_.at(id).bundles)
      if (touches(bundle.node, bundle.devices))
        lost.insert(number);
    if (lost.empty())
      continue;
    const auto& request = groups_.at(id).request;
    if (request.strategy == gpuactors::GroupStrategy::strict_pack && !request.shrinks)
      for (const auto& [number, bundle] : groups_.at(id).bundles)
        lost.insert(number);
    lose_bundles(id, lost, out);
  }
}

// What the lost ones had besides failed devices stays with those who held it.
void Model::keep_remains(const std::map<std::uint64_t, Held>& before, const Outcomes& lost) {
  std::set<std::uint64_t> ids;
  for (const auto& outcome : lost)
    if (outcome.kind == Event::Kind::lost && outcome.request != 0)
      ids.insert(outcome.request);
  for (const auto id : ids) {
    const auto& was = before.at(id);
    auto lender = was.lender;
    while (lender != 0 && held_.count(lender) == 0 && remains_.count(lender) == 0)
      lender = before.at(lender).lender;
    if (const auto lends = held_.find(id); lends != held_.end())
      lends->second.stays = true;
    else
      keep_rest(id, was, lender);
  }
}

// The lease of a lender is gone: what lost borrowers keep is a part of what is kept of it, or nobody else's.
void Model::keep_rests_within(std::uint64_t lender, const Held& was) {
  const auto within = remains_;
  for (const auto& [id, rest] : within)
    if (rest.lender == lender) {
      remains_.erase(id);
      auto of = rest;
      of.request.owner = was.request.owner;
      keep_rest(id, of, was.stays ? lender : was.lender);
    }
}

void Model::keep_rest(std::uint64_t id, const Held& was, std::uint64_t lender) {
  const auto& source = was.source;
  Held rest;
  rest.source = {source.node, 0, 0, 0};
  rest.amounts = was.amounts;
  std::erase_if(rest.amounts.devices,
                [&](const DeviceGrant& device) { return nodes_.at(source.node).failed.count(device.index) > 0; });
  rest.request.owner =
      source.group != 0 && source.lease == 0 ? groups_.at(source.group).request.owner : was.request.owner;
  rest.lender = lender;
  rest.taken_from = was.taken_from;
  if (const auto of = remains_.find(lender); of != remains_.end()) {
    for (const auto& mine : rest.amounts.devices)
      for (auto& device : of->second.amounts.devices)
        if (device.index == mine.index) {
          device.share -= mine.share;
          device.memory_bytes -= mine.memory_bytes;
        }
    of->second.amounts.cpus -= rest.amounts.cpus;
    for (const auto& [name, amount] : rest.amounts.resources)
      of->second.amounts.resources[name] -= amount;
    rest.taken_from = was.taken_from == 0 ? lender : was.taken_from;
    rest.lender = of->second.lender;
    rest.request.owner = of->second.request.owner;
  } else if (lender == 0) {
    charged_ = charged_ || !rest.request.owner.empty();
  }
  remains_[id] = rest;
}

// The leases in them are lost, and the group is back in the queue, as old as it was.
void Model::lose_bundles(std::uint64_t id, const std::set<int>& numbers, Outcomes& out) {
  auto& group = groups_.at(id);
  lose(held_in(id, [&](int bundle) { return numbers.count(bundle) > 0; }), out);
  forget(0, id);
  for (const auto number : numbers) {
    give_back(id, group.bundles.at(number));
    group.bundles.erase(number);
  }
  if (group.request.shrinks) {
    group.gone.insert(numbers.begin(), numbers.end());
    group.shrunk = true;
    return;
  }
  queue_.push_back({0, id, {}, now_, never, group.age, group.request.priority});
  out.push_back({Event::Kind::pending, 0, id, {}});
}

// Says what has become of groups that lost bundles, then lets those go that nothing is in any more, one by one.
void Model::shrink_groups(Outcomes& out) {
  const auto tell = [&](std::uint64_t id, Event::Kind end) {
    auto& group = groups_.at(id);
    if (group.bundles.empty()) {
      out.push_back({end, 0, id, {}});
      end_group(id, out);
      return false;
    }
    out.push_back({Event::Kind::granted, 0, id, {}});
    for (const auto& waiting : std::vector(queue_))
      if (waiting.group == 0 && waiting.request.group.value() == id) {
        const bool gone = group.gone.count(waiting.request.bundle) > 0;
        if (!gone && (waits_for_nodes(waiting) || is_feasible(waiting)))
          continue;
        out.push_back({gone ? Event::Kind::rejected : Event::Kind::infeasible, waiting.id, 0, {}});
        forget(waiting.id, 0);
      }
    return true;
  };
  for (const auto id : live_groups())
    if (auto& group = groups_.at(id); std::exchange(group.shrunk, false))
      tell(id, Event::Kind::lost);
  for (const auto id : live_groups())
    for (const auto number : std::exchange(groups_.at(id).left, {})) {
      auto& group = groups_.at(id);
      const bool used = std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
        return held.second.source.group == id && held.second.source.bundle == number && held.second.source.lease == 0;
      });
      if (!group.request.shrinks || used || group.bundles.count(number) == 0)
        continue;
      give_back(id, group.bundles.at(number));
      group.bundles.erase(number);
      group.gone.insert(number);
      if (!tell(id, Event::Kind::released))
        break;
    }
}

// Leases in bundles of a group, and what these have lent.
std::set<std::uint64_t> Model::held_in(std::uint64_t group, const std::function<bool(int)>& bundle) const {
  std::set<std::uint64_t> ids;
  bool more = true;
  while (more) {
    more = false;
    for (const auto& [lease, held] : held_)
      if (((held.source.group == group && bundle(held.source.bundle)) || ids.count(held.lender) > 0)
          && ids.insert(lease).second)
        more = true;
  }
  return ids;
}

// -- calls -----------------------------------------------------------------------------------------

Model::Outcomes Model::submit(std::uint64_t id, ResourceRequest request, std::uint64_t parent,
                              const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  request.parent = gpuactors::LeaseId{ancestors(parent).empty() ? 0 : parent};
  const bool bad_group =
      request.group
      && (groups_.count(request.group.value()) == 0
          || request.bundle >= static_cast<int>(groups_.at(request.group.value()).request.bundles.size())
          || groups_.at(request.group.value()).gone.count(request.bundle) > 0);
  if (bad_group || !gpuactors::validate(request)) {
    out.push_back({Event::Kind::rejected, id, 0, {}});
    return out;
  }
  const auto deadline = request.queue_timeout ? now_ + *request.queue_timeout : never;
  enqueue({id, 0, request, now_, deadline, ++age_, request.priority}, events, out);
  if (charged_)
    settle(events, out);
  return out;
}

Model::Outcomes Model::release(std::uint64_t id, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  out.push_back({Event::Kind::released, id, 0, {}});
  if (const auto rest = remains_.extract(id); !rest.empty()) {
    const auto& gone = rest.mapped();
    for (auto& [other, one] : remains_)
      if (one.taken_from == id)
        one.taken_from = gone.taken_from;
    if (gone.taken_from != 0)
      put_back(remains_.at(gone.taken_from).amounts, gone.amounts);
    else if (gone.lender == 0)
      freed_.push_back(gone.source);
  } else if (const auto lends = held_.find(id); lends->second.stays) {
    lends->second.stays = false;
  } else {
    end(id);
  }
  settle(events, out);
  return out;
}

Model::Outcomes Model::cancel(std::uint64_t id, const std::vector<Event>& events) {
  Outcomes out;
  out.push_back({Event::Kind::released, id, 0, {}});
  forget(id, 0);
  sync_reservations();
  pass_time(events, out);
  settle(events, out);
  return out;
}

Model::Outcomes Model::submit_group(std::uint64_t id, GroupRequest request, const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  const auto deadline = request.queue_timeout ? now_ + *request.queue_timeout : never;
  const auto priority = request.priority;
  groups_[id] = Group{std::move(request), {}, ++age_, false, {}, false, {}};
  enqueue({0, id, {}, now_, deadline, age_, priority}, events, out);
  if (charged_)
    settle(events, out);
  return out;
}

Model::Outcomes Model::release_group(std::uint64_t id, const std::vector<Event>& events) {
  Outcomes out;
  out.push_back({Event::Kind::released, 0, id, {}});
  forget(0, id);
  end_group(id, out);
  pass_time(events, out);
  settle(events, out);
  return out;
}

Model::Outcomes Model::set_quota(const std::string& owner, std::optional<Share> limit,
                                 const std::vector<Event>& events) {
  Outcomes out;
  pass_time(events, out);
  if (limit)
    limits_[owner] = limit->units();
  else
    limits_.erase(owner);
  settle(events, out);
  return out;
}

Model::Outcomes Model::advance(TimePoint now, const std::vector<Event>& events) {
  Outcomes out;
  now_ = now;
  pass_time(events, out);
  return out;
}

// -- time  -------------------------------------------------------------------------

void Model::pass_time(const std::vector<Event>& events, Outcomes& out) {
  bool wake = false;
  for (auto& [priority, reservation] : reservations_) {
    if (!reservation.held || reservation.until > now_)
      continue;
    count_in_vain(reservation);
    reservation.held = false;
    reservation.since = now_;
    reservation.passes = 0;
    wake = true;
  }
  const auto order = queue_;
  for (const auto& waiting : order)
    if (waiting.deadline <= now_
        && std::any_of(queue_.begin(), queue_.end(), [&](const Waiting& w) { return w.age == waiting.age; })) {
      out.push_back({Event::Kind::rejected, waiting.id, waiting.group, {}});
      forget(waiting.id, waiting.group);
      if (waiting.group != 0)
        end_group(waiting.group, out);
      wake = true;
    }
  if (wake)
    settle(events, out);
  sync_reservations();
  for (const auto& [priority, waiting] : oldest()) {
    auto& reservation = reservations_[priority];
    if (reservation.holder_age != waiting->age) {
      reservation = Reservation{};
      reservation.holder_age = waiting->age;
      reservation.since = waiting->since;
    }
    if (!reservation.held && now_ - reservation.since >= options_.reservation_after)
      reserve(*waiting);
  }
}

// -- what there is ---------------------------------------------------------------------------------

std::vector<std::uint64_t> Model::live_leases() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, held] : held_)
    if (!held.ended)
      ids.push_back(id);
  return ids;
}

std::vector<std::uint64_t> Model::waiting_requests() const {
  std::vector<std::uint64_t> ids;
  for (const auto& waiting : queue_)
    if (waiting.group == 0)
      ids.push_back(waiting.id);
  return ids;
}

std::vector<std::uint64_t> Model::live_groups() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : groups_)
    ids.push_back(id);
  return ids;
}

std::vector<std::string> Model::node_names() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_)
    names.push_back(name);
  return names;
}

} // namespace model

// Requests: submission, grant, queueing, release, withdrawal; and the passing of time.
#include <gpuactors/ledger/ledger.hpp>
#include <gpuactors/ledger/placement.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

using ledger_detail::counts_in_quota;
using ledger_detail::least_charge;
using ledger_detail::place;
using ledger_detail::place_in;

// -- submit ----------------------------------------------------------------------------------------

Ledger::Events Ledger::submit(RequestId id, ResourceRequest request, TimePoint now) {
  Events earlier;
  pass_time(now, earlier);
  Events events;
  if (const auto error = why_invalid(id, request))
    events.push_back(Event::about(id, Event::Kind::rejected, error->code(), error->message()));
  else
    answer(id, request, events);
  if (quota_due_)
    pump(events);
  return answer_first(std::move(events), std::move(earlier));
}

Ledger::Events Ledger::answer_first(Events answer, Events earlier) {
  for (auto& event : earlier)
    answer.push_back(std::move(event));
  return answer;
}

std::optional<Error> Ledger::why_invalid(RequestId id, const ResourceRequest& request) const {
  if (!id)
    return Error{Errc::invalid_argument, "a request needs an id other than 0"};
  if (const auto valid = validate(request); !valid)
    return valid.error();
  if (holders_.count(id) > 0 || queue_.find(id) != nullptr)
    return Error{Errc::already_exists, fmt::format("request {} is already there", id.value())};
  if (request.group) {
    const auto it = groups_.find(request.group);
    if (it == groups_.end())
      return Error{Errc::not_found, fmt::format("there is no placement group {}", request.group.value())};
    const auto& group = it->second;
    if (request.bundle >= group.bundle_count())
      return Error{Errc::invalid_argument, fmt::format("bundle is {}: the placement group has bundles 0 to {}",
                                                       request.bundle, group.bundle_count() - 1)};
    if (group.gone.count(request.bundle) > 0)
      return Error{Errc::not_found,
                   fmt::format("bundle {} of placement group {} is no more: what ran in it has ended, or its device "
                               "was lost",
                               request.bundle, request.group.value())};
  }
  return std::nullopt;
}

void Ledger::answer(RequestId id, ResourceRequest& request, Events& events) {
  // The parent's lease has ended, so nobody holds resources while waiting for this answer.
  if (request.parent && live(request.parent) == nullptr)
    request.parent = LeaseId{};
  const auto key = queue_.next_key(request.priority);
  if (auto found = find_place(request, key)) {
    auto name = std::move(request.name);
    grant(id, std::move(name), request, key, std::move(*found), events);
  } else {
    enqueue_or_refuse(id, request, key, events);
  }
}

std::optional<Ledger::Found> Ledger::find_place(const ResourceRequest& request, QueueKey key) {
  auto lens = binding(key);
  if (request.group) {
    for (const auto& bundle : groups_.at(request.group).bundles)
      if (bundle.serves(request))
        if (auto devices = place_in(*bundle.pool, request, lens))
          return Found{{bundle.pool.get(), std::move(*devices)}, {}, bundle.grant.bundle};
  } else if (const auto room = quotas_.room_of(request.owner); least_charge(request) <= room) {
    lens.limit_share(room);
    if (auto fit = place(table_, request, lens))
      return Found{std::move(*fit), {}, 0};
  }
  // What is borrowed counts as the lender's already.
  lens.most_share = Share::whole(1);
  return request.parent ? find_loan(request, lens) : std::nullopt;
}

void Ledger::grant(RequestId id, std::string name, const ResourceRequest& request, QueueKey key, Found&& found,
                   Events& events) {
  auto& [pool, devices] = found.fit;
  const bool in_bundle = request.group && !found.lender;
  Lease lease{LeaseId{++last_lease_},
              ++last_epoch_,
              id,
              std::move(name),
              pool->node->spec.name,
              std::move(devices),
              request.cpus,
              request.resources,
              found.lender,
              in_bundle ? request.group : GroupId{},
              in_bundle ? found.bundle : 0,
              request.owner,
              request.parent};
  const auto& held = record_lease(std::move(lease), *pool);
  events.push_back(Event::about(held, Event::Kind::granted));
  if (!found.lender && queue_.wakes().size() > 0)
    count_pass(key, Fit{pool, held.devices});
}

const Lease& Ledger::record_lease(Lease&& lease, Pool& source) {
  table_.take(source, lease.devices, lease.cpus, lease.resources);
  holders_.emplace(lease.request, lease.id);
  if (lease.parent)
    ++records_.at(lease.parent).borrowers;
  else if (lease.group)
    groups_.at(lease.group).leases.insert(lease.id);
  if (counts_in_quota(lease))
    charge(lease.owner, lease.devices);
  auto& record = records_[lease.id];
  record.source = &source;
  record.lease = std::move(lease);
  return record.lease;
}

void Ledger::enqueue_or_refuse(RequestId id, ResourceRequest& request, QueueKey key, Events& events) {
  auto shape_key = shape_key_of(request);
  auto* known = queue_.find_shape(shape_key);
  const auto prospect = known != nullptr ? known->prospect : prospect_of(shape_key);
  const bool may_queue = request.queue && request.queue_timeout != Duration::zero();
  if (auto refusal = refuse_to_queue(shape_key, prospect, key, request.wait_for_nodes, may_queue)) {
    refusal->request = id;
    events.push_back(std::move(*refusal));
    return;
  }
  // The reason of a new shape is not kept: if all requests differ, nobody reads it again, and a million texts would
  // cost memory.
  events.push_back(Event::about(id, Event::Kind::pending, Errc::none,
                                known != nullptr ? shared_reason(*known, key) : why_pending(shape_key, prospect, key)));
  const auto deadline = request.queue_timeout ? deadline_after(now_, *request.queue_timeout) : never;
  auto& shape = queue_.shape_of(std::move(shape_key), prospect);
  queue_.add(Entry{key,
                   id,
                   {},
                   std::move(request.name),
                   Entry::owned_by(std::move(request.owner)),
                   now_,
                   deadline,
                   request.wait_for_nodes,
                   &shape});
  if (request.parent)
    ++waiting_children_[request.parent];
  if (request.group)
    ++groups_.at(request.group).waiting;
}

std::optional<Event> Ledger::refuse_to_queue(const ShapeKey& key, const Prospect& prospect, QueueKey at,
                                             bool waits_for_nodes, bool may_queue) const {
  if (prospect.needs_new_node() && !waits_for_nodes && !expecting_) {
    const auto error = infeasible(key);
    return Event::about(RequestId{}, Event::Kind::infeasible, error.code(), error.message());
  }
  if (!may_queue)
    return Event::about(RequestId{}, Event::Kind::rejected, Errc::no_capacity, why_pending(key, prospect, at));
  if (queue_.entries().size() >= options_.max_pending)
    return Event::about(RequestId{}, Event::Kind::rejected, Errc::queue_full,
                        fmt::format("{} requests wait already, more are not taken: try again when some are done",
                                    options_.max_pending));
  return std::nullopt;
}

std::string Ledger::shared_reason(Shape& shape, QueueKey at) const {
  const auto& key = *shape.key;
  // The table's version does not cover the free amounts of bundles, nor changes of quotas, which drop the text.
  if (!shape.reason || shape.reason->version != table_.version() || key.request.group)
    shape.reason = std::make_unique<ledger_detail::Reason>(
        ledger_detail::Reason{why_blocked(key, shape.prospect), table_.version()});
  // An empty text means that only reservations are in the way, which the version does not cover either.
  return shape.reason->text.empty() ? held_back_for(key, at) : shape.reason->text;
}

// -- release, cancel, time -------------------------------------------------------------------------

Result<Ledger::Events> Ledger::release(LeaseId id, std::uint64_t epoch, TimePoint now) {
  const auto* held = find_lease(id);
  const bool lost = held == nullptr;
  if (lost)
    held = find_remains(id);
  if (held == nullptr) {
    if (id && id.value() <= last_lease_)
      return fail(Errc::lease_expired, fmt::format("lease {} has ended", id.value()));
    return fail(Errc::not_found, fmt::format("there is no lease {}", id.value()));
  }
  if (held->epoch != epoch)
    return fail(Errc::stale_epoch, fmt::format("lease {} has epoch {}, not {}", id.value(), held->epoch, epoch));
  Events events;
  events.push_back(Event::about(*held, Event::Kind::released));
  Events earlier;
  pass_time(now, earlier);
  const auto record = records_.find(id);
  if (!lost)
    end_lease(record);
  else if (record != records_.end())
    record->second.holder_stays = false; // others still have parts of it
  else
    free_remains(remains_.find(id));
  pump(events);
  return answer_first(std::move(events), std::move(earlier));
}

Result<Ledger::Events> Ledger::cancel(RequestId id, TimePoint now) {
  if (const auto it = holders_.find(id); it != holders_.end())
    return fail(Errc::invalid_argument,
                fmt::format("request {} waits no longer: release its lease {}", id.value(), it->second.value()));
  const auto* entry = queue_.find(id);
  if (entry == nullptr)
    return fail(Errc::not_found, fmt::format("there is no request {} that waits", id.value()));
  // The request is withdrawn before time passes, so that no timeout or grant answers it.
  Events events;
  refuse_entry(entry->key, Event::Kind::released, Errc::cancelled, "withdrawn while it waited", events);
  pass_time(now, events);
  pump(events);
  return events;
}

Ledger::Events Ledger::advance(TimePoint now) {
  Events events;
  pass_time(now, events);
  return events;
}

void Ledger::pass_time(TimePoint now, Events& events) {
  now_ = std::max(now_, now);
  if (queue_.entries().empty())
    return;
  bool serve = std::exchange(serve_due_, false);
  serve |= expire_reservations();
  while (!queue_.deadlines().empty() && queue_.deadlines().begin()->first <= now_) {
    const auto key = queue_.deadlines().begin()->second;
    const auto& entry = *queue_.find(key);
    const auto waited = std::chrono::duration<double>(entry.deadline - entry.since).count();
    auto reason = fmt::format("waited {} s in vain: {}", waited, shared_reason(*entry.shape, key));
    refuse_entry(key, Event::Kind::rejected, Errc::no_capacity, std::move(reason), events);
    serve = true;
  }
  if (serve)
    pump(events);
  make_due_reservations();
}

std::optional<TimePoint> Ledger::next_timeout() const {
  std::optional<TimePoint> next;
  if (!queue_.deadlines().empty())
    next = queue_.deadlines().begin()->first;
  for (const auto& [priority, claim] : claims_)
    if (claim.reservation && (!next || claim.reservation->until < *next))
      next = claim.reservation->until;
  return next;
}

} // namespace gpuactors

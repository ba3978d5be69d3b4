// Requests: submission, grant, queueing, release, withdrawal; and the passing of time.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/impl.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

using ledger_detail::least_charge;
using ledger_detail::place;
using ledger_detail::place_in;

namespace {

Event refusal(RequestId id, Event::Kind kind, Errc code, std::string reason) {
  return Event{kind, id, {}, std::nullopt, {}, code, std::move(reason)};
}

} // namespace

// -- submit ----------------------------------------------------------------------------------------

Ledger::Events Ledger::Impl::submit(RequestId id, ResourceRequest request, TimePoint now) {
  Events earlier;
  pass_time(now, earlier);
  Events events;
  if (const auto error = refuse(id, request))
    events.push_back(refusal(id, Event::Kind::rejected, error->code(), error->message()));
  else
    answer(id, request, events);
  if (quota_due_)
    pump(events);
  return finish(std::move(events), std::move(earlier));
}

// Puts the answer first, before the events of the time that has passed.
Ledger::Events Ledger::Impl::finish(Events answer, Events earlier) {
  for (auto& event : earlier)
    answer.push_back(std::move(event));
  return answer;
}

std::optional<Error> Ledger::Impl::refuse(RequestId id, ResourceRequest& request) const {
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
    const auto count = static_cast<int>(it->second.request.bundles.size());
    if (request.bundle >= count)
      return Error{Errc::invalid_argument,
                   fmt::format("bundle is {}: the placement group has bundles 0 to {}", request.bundle, count - 1)};
    if (it->second.gone.count(request.bundle) > 0)
      return Error{Errc::not_found,
                   fmt::format("bundle {} of placement group {} is no more: what ran in it has ended, or its device "
                               "was lost",
                               request.bundle, request.group.value())};
  }
  // The parent's lease has ended, so nobody holds resources while waiting for this answer.
  if (request.parent && live(request.parent) == nullptr)
    request.parent = LeaseId{};
  return std::nullopt;
}

void Ledger::Impl::answer(RequestId id, ResourceRequest& request, Events& events) {
  const auto key = queue_.next_key(request.priority);
  if (auto found = find_place(request, key)) {
    auto name = std::move(request.name);
    grant(id, std::move(name), request, key, std::move(*found), events);
  } else {
    wait(id, request, key, events);
  }
}

std::optional<Ledger::Impl::Found> Ledger::Impl::find_place(const ResourceRequest& request, QueueKey key) {
  auto lens = binding(key);
  if (request.group) {
    auto& bundles = groups_.at(request.group).bundles;
    for (auto& bundle : bundles)
      if (request.bundle == -1 || request.bundle == bundle.grant.bundle)
        if (auto devices = place_in(*bundle.pool, request, lens))
          return Found{{bundle.pool.get(), std::move(*devices)}, {}, bundle.grant.bundle};
  } else if (has_room(request.owner, least_charge(request), lens)) {
    if (auto placement = place(table_, request, lens))
      return Found{std::move(*placement), {}, 0};
  }
  // What is borrowed counts as the lender's already.
  lens.most_share = Share::whole(1);
  if (request.parent)
    return borrow(request, lens);
  return std::nullopt;
}

void Ledger::Impl::grant(RequestId id, std::string name, const ResourceRequest& request, QueueKey key, Found&& found,
                         Events& events) {
  auto& [pool, devices] = found.placement;
  table_.take(*pool, devices, request.cpus, request.resources);
  const LeaseId lease_id{++next_lease_};
  auto& record = records_.try_emplace(lease_id).first->second;
  record.lease = Lease{lease_id,
                       ++epoch_,
                       id,
                       std::move(name),
                       pool->node->spec.name,
                       std::move(devices),
                       request.cpus,
                       request.resources,
                       found.lender,
                       {},
                       0,
                       request.owner,
                       request.parent};
  record.source = pool;
  if (found.lender) {
    ++records_.at(found.lender).lent_out;
  } else if (request.group) {
    record.lease.group = request.group;
    record.lease.bundle = found.bundle;
    groups_.at(request.group).leases.insert(lease_id);
  }
  if (counts(record.lease))
    charge(record.lease.owner, record.lease.devices);
  holders_.emplace(id, lease_id);
  events.push_back(Event{Event::Kind::granted, id, {}, record.lease, {}, Errc::none, {}});
  if (!found.lender && queue_.wakes().size() > 0)
    count_pass(key, Fit{pool, record.lease.devices});
}

void Ledger::Impl::wait(RequestId id, ResourceRequest& request, QueueKey key, Events& events) {
  const auto kind = shape_key(request);
  const auto* known = queue_.find_shape(kind);
  const auto prospect = known != nullptr ? known->prospect : prospect_of(kind);
  if (prospect.needs_new_node() && !request.wait_for_nodes && !expecting_) {
    const auto error = infeasible(kind);
    events.push_back(refusal(id, Event::Kind::infeasible, error.code(), error.message()));
    return;
  }
  if (!request.queue || request.queue_timeout == Duration::zero()) {
    events.push_back(refusal(id, Event::Kind::rejected, Errc::no_capacity, why_pending(kind, prospect)));
    return;
  }
  if (queue_.entries().size() >= options_.max_pending) {
    events.push_back(refusal(id, Event::Kind::rejected, Errc::queue_full,
                             fmt::format("{} requests wait already, more are not taken: try again when some are done",
                                         options_.max_pending)));
    return;
  }
  auto& shape = queue_.shape_of(kind, prospect);
  if (known == nullptr) {
    // The reason of a new shape is not kept: if all requests differ, nobody reads it again, and a million texts would
    // cost memory.
    events.push_back(refusal(id, Event::Kind::pending, Errc::none, why_pending(kind, prospect)));
  } else {
    // The table's version does not cover the free amounts of bundles, nor changes of quotas, which drop the text.
    if (!shape.reason || shape.reason->version != table_.version() || request.group)
      shape.reason =
          std::make_unique<ledger_detail::Reason>(ledger_detail::Reason{why_blocked(kind, prospect), table_.version()});
    // An empty text means that only reservations are in the way, which the version does not cover either.
    const auto& text = shape.reason->text;
    events.push_back(refusal(id, Event::Kind::pending, Errc::none, text.empty() ? why_pending(kind, prospect) : text));
  }
  const auto deadline = request.queue_timeout ? deadline_after(now_, *request.queue_timeout) : never;
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

// -- release, cancel, time -------------------------------------------------------------------------

Result<Ledger::Events> Ledger::Impl::release(LeaseId id, std::uint64_t epoch, TimePoint now) {
  const auto* held = find_lease(id);
  const bool lost = held == nullptr;
  if (lost)
    held = find_remains(id);
  if (held == nullptr) {
    if (id && id.value() <= next_lease_)
      return fail(Errc::lease_expired, fmt::format("lease {} has ended", id.value()));
    return fail(Errc::not_found, fmt::format("there is no lease {}", id.value()));
  }
  if (held->epoch != epoch)
    return fail(Errc::stale_epoch, fmt::format("lease {} has epoch {}, not {}", id.value(), held->epoch, epoch));
  Events events;
  events.push_back(Event{Event::Kind::released, held->request, {}, *held, {}, Errc::none, {}});
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
  return finish(std::move(events), std::move(earlier));
}

Result<Ledger::Events> Ledger::Impl::cancel(RequestId id, TimePoint now) {
  if (const auto it = holders_.find(id); it != holders_.end())
    return fail(Errc::invalid_argument,
                fmt::format("request {} waits no longer: release its lease {}", id.value(), it->second.value()));
  if (queue_.find(id) == nullptr)
    return fail(Errc::not_found, fmt::format("there is no request {} that waits", id.value()));
  // The request is withdrawn before time passes, so that no timeout or grant answers it.
  Events events;
  refuse_entry(queue_.find(id)->key, Event::Kind::released, Errc::cancelled, "withdrawn while it waited", events);
  pass_time(now, events);
  pump(events);
  return events;
}

Ledger::Events Ledger::Impl::advance(TimePoint now) {
  Events events;
  pass_time(now, events);
  return events;
}

void Ledger::Impl::pass_time(TimePoint now, Events& events) {
  now_ = std::max(now_, now);
  if (queue_.entries().empty())
    return;
  bool wake = std::exchange(serve_due_, false);
  wake |= expire_reservations();
  while (!queue_.deadlines().empty() && queue_.deadlines().begin()->first <= now_) {
    const auto key = queue_.deadlines().begin()->second;
    const auto waited = std::chrono::duration<double>(queue_.find(key)->deadline - queue_.find(key)->since).count();
    auto reason = fmt::format("waited {} s in vain: {}", waited,
                              why_pending(*queue_.find(key)->shape->key, queue_.find(key)->shape->prospect));
    refuse_entry(key, Event::Kind::rejected, Errc::no_capacity, std::move(reason), events);
    wake = true;
  }
  if (wake)
    pump(events);
  make_due_reservations();
}

std::optional<TimePoint> Ledger::Impl::next_timeout() const {
  std::optional<TimePoint> next;
  if (!queue_.deadlines().empty())
    next = queue_.deadlines().begin()->first;
  for (const auto& [priority, claim] : claims_)
    if (claim.reservation && (!next || claim.reservation->until < *next))
      next = claim.reservation->until;
  return next;
}

} // namespace gpuactors

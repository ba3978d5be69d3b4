#include <gpuactors/broker/core/broker_core.hpp>

namespace gpuactors {

namespace {

LedgerOptions ledger_options(std::uint64_t last_id) {
  LedgerOptions options;
  options.last_id = last_id;
  return options;
}

} // namespace

BrokerCore::BrokerCore(BrokerWorld& world, BrokerOptions options)
  : world_(world), options_(std::move(options)), ledger_(ledger_options(options_.last_id)), log_(world),
    keeper_(world, log_, options_.store, options_.last_id),
    rooms_("actors and placement groups", limits::started_per_name, limits::started_bytes_per_name),
    leases_room_("leases for tasks, or requests for them", limits::leases_per_name, 0),
    standstill_(options_.heartbeat, options_.link_timeout),
    followers_(options_.term, options_.link_timeout, options_.other, world.now()), last_request_(options_.last_id),
    last_actor_(options_.last_id), last_group_(options_.last_id) {
  if (options_.recording != nullptr)
    ledger_.record(options_.recording);
}

void BrokerCore::start() {
  if (!options_.taken_from.empty())
    log_.add(EventKind::standby, options_.taken_from, "this broker has taken over: " + options_.taken_why);
  if (standstill_.is_looked_for()) {
    standstill_.note(pulse());
    world_.wake(options_.heartbeat, Wake::pulse);
  }
  if (options_.settle > Duration::zero()) {
    settling_ = true;
    apply(ledger_.expect_nodes(true, world_.now()));
    world_.wake(options_.settle, Wake::settled);
    load();
  } else if (keeper_.keeps()) {
    // Nobody is waited for: what has a place comes back late, as far as it waits, and the rest is started anew.
    load();
    settled();
  }
  for (const auto& [owner, limit] : options_.quotas)
    if (auto set = change_quota(owner, limit); !set)
      log_.add(EventKind::error, "quota", set.error().message());
}

void BrokerCore::finish() {
  ledger_.finish();
  keeper_.commit();
}

void BrokerCore::wake(Wake what) {
  // Before anything else: what is due now may be late because the broker stood still.
  look_for_standstill();
  switch (what) {
  case Wake::timeout:
    if (world_.now() < ledger_due_)
      return; // stale: an earlier wake-up has overtaken this one
    ledger_due_ = never;
    return apply(ledger_.advance(world_.now()));
  case Wake::settled:
    return settled();
  case Wake::commit:
    return keeper_.commit();
  case Wake::emptying:
    emptying_pace_.look();
    return empty_nodes();
  case Wake::due:
    return look_at_due();
  case Wake::turn:
    return make_way_again();
  case Wake::pulse:
    standstill_.note(pulse());
    look_at_followers();
    return world_.wake(options_.heartbeat, Wake::pulse);
  case Wake::patience:
    return give_up_away_nodes();
  }
}

} // namespace gpuactors

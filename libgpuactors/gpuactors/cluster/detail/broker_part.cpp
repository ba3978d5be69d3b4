#include <gpuactors/broker/core/state_feed.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/broker/state_store.hpp>
#include <gpuactors/cluster/detail/broker_part.hpp>
#include <gpuactors/cluster/detail/standby_part.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace gpuactors::detail {

namespace {

/// The first id of a broker that starts now. A broker that starts later issues higher ids than this one, as long as
/// this one issues less than 8 million a second. Ids stay below 2^53, which JSON numbers hold exactly, for 16 years.
std::uint64_t first_id() {
  using std::chrono::milliseconds;
  using std::chrono::system_clock;
  constexpr std::int64_t epoch = 1'767'225'600'000; // 2026-01-01
  const auto now = std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  constexpr int bits = 13;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, now - epoch)) << bits;
}

/// The highest id that the store has seen: if the clock was set back, those must not be issued again.
Result<std::uint64_t> last_id_in(StateStore& store) {
  std::uint64_t last = 0;
  for (const auto section : {StateSection::actors, StateSection::groups}) {
    GPUACTORS_LET(entries, store.load(section));
    for (const auto& entry : entries)
      if (const auto* id = std::get_if<std::uint64_t>(&entry.key))
        last = std::max(last, *id);
  }
  GPUACTORS_LET(ids, store.load(StateSection::ids));
  for (const auto& entry : ids)
    if (entry.key == StateKey{std::string{reserved_ids_key}})
      last = std::max<std::uint64_t>(last, std::strtoull(entry.value.c_str(), nullptr, 10));
  return last;
}

} // namespace

Result<void> BrokerPart::start(DaemonCore& core, const BrokerDaemon& options, bool takes_over) {
  GPUACTORS_LET(listen, parse_endpoint(options.listen));
  BrokerOptions config;
  config.last_id = first_id();
  config.settle = limits::settle;
  config.heartbeat = core.links().options().heartbeat;
  config.link_timeout = core.links().options().timeout;
  for (const auto& [owner, gpus] : options.quotas) {
    GPUACTORS_LET(limit, Share::from_double(gpus, "the quota of \"" + owner + "\""));
    GPUACTORS_TRY(validate_quota(owner, limit));
    config.quotas.emplace(owner, limit);
  }
  if (!options.store.empty()) {
    GPUACTORS_LET(store, StateStore::open(options.store));
    GPUACTORS_LET(last, last_id_in(*store));
    config.last_id = std::max(config.last_id, last);
    GPUACTORS_LET(term, term_in(*store));
    term_ = term + (takes_over ? 1 : 0);
    config.term = term_;
    store->put(StateSection::ids, std::string{serves_key}, "1");
    store->put(StateSection::ids, std::string{term_key}, std::to_string(term_));
    GPUACTORS_TRY(store->commit());
    config.store = std::move(store);
  }
  GPUACTORS_TRY(BrokerCore::check_quotas(config));
  handle_ = core.spawn<ResourceBroker>(std::move(config), core.links().lanes());
  failure_.watch(handle_, "broker");
  GPUACTORS_LET(port, core.links().publish(handle_, listen));
  listen.port = port;
  endpoint_ = std::move(listen);
  return {};
}

} // namespace gpuactors::detail

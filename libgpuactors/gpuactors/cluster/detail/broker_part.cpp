#include <gpuactors/base/random_id.hpp>
#include <gpuactors/broker/core/broker_role.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/broker/state_store.hpp>
#include <gpuactors/cluster/detail/broker_part.hpp>
#include <gpuactors/cluster/detail/own_address.hpp>

#include <fmt/format.h>

#include <chrono>
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

Result<void> BrokerPart::start(DaemonCore& core, const BrokerDaemon& options, std::optional<Replaced> replaced) {
  GPUACTORS_LET(listen, parse_endpoint(options.listen));
  BrokerOptions config;
  config.last_id = first_id();
  config.settle = options.settle;
  if (replaced) {
    config.taken_from = std::move(replaced->broker);
    config.taken_why = std::move(replaced->why);
  }
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
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    GPUACTORS_LET(claim, begin_to_serve(*store, replaced.has_value(),
                                        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                                        fmt::format("{:016x}", random_id())));
    GPUACTORS_LET(role, role_in(*store));
    config.term = claim.term();
    config.lineage = role.lineage;
    config.since_unix_ns = claim.since_unix_ns();
    claim_ = std::move(claim);
    config.other = role.other.value_or("");
    if (role.other)
      if (auto endpoint = parse_endpoint(*role.other))
        other_ = std::move(*endpoint);
    config.store = std::move(store);
  }
  GPUACTORS_TRY(BrokerCore::check_quotas(config));
  handle_ = core.spawn<ResourceBroker>(std::move(config), core.links().lanes());
  failure_.watch(handle_, "broker");
  certificate_.emplace(core, handle_);
  GPUACTORS_LET(port, core.links().publish(handle_, listen));
  listen.port = port;
  endpoint_ = std::move(listen);
  return tell_other(core, options);
}

Result<void> BrokerPart::tell_other(DaemonCore& core, const BrokerDaemon& options) {
  std::optional<Endpoint> other;
  if (!options.standby_of.empty()) {
    GPUACTORS_LET(named, parse_endpoint(options.standby_of));
    other = std::move(named);
  } else {
    other = other_;
  }
  if (!other)
    return {};
  GPUACTORS_LET(known, advertised(options.advertise, endpoint_, *other));
  claim_.set_address(to_string(known));
  redial_ = std::make_shared<Redial>(core.links(), std::vector{*other},
                                     [&port = core.port(), claim = claim_](Result<caf::strong_actor_ptr> handle) {
                                       if (handle)
                                         port.tell(*handle, claim);
                                     });
  redial_->start();
  return {};
}

BrokerPart::~BrokerPart() {
  if (redial_ != nullptr)
    redial_->stop();
}

} // namespace gpuactors::detail

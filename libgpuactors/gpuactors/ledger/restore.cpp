// Rebuilding a ledger: restores known leases and groups in their places; also pause, resume and expected nodes.
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/ledger.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace gpuactors {

namespace {

using ledger_detail::describe_bytes;
using ledger_detail::Pool;

// Leaves later ids and epochs more than will ever be given.
constexpr auto most_restored = std::numeric_limits<std::uint64_t>::max() / 2;

// Checks that the devices are in the pool and have that much free. `what` names their holder in texts: "lease 3".
Result<void> check_devices(const Pool& pool, const std::vector<DeviceGrant>& devices, const std::string& what) {
  int last = -1;
  for (const auto& device : devices) {
    const auto at = fmt::format("{}: device {} of node {}", what, device.index, pool.node->spec.name);
    const auto* slot = pool.slot(device.index);
    if (slot == nullptr)
      return fail(Errc::not_found,
                  fmt::format("{} is not there: where it comes from has {} devices", at, pool.slots.size()));
    if (device.index <= last)
      return fail(Errc::invalid_argument, fmt::format("{} comes after device {}: they must ascend", at, last));
    last = device.index;
    if (!slot->ok)
      return fail(Errc::invalid_argument, fmt::format("{} has failed", at));
    if (device.share <= Share{} || device.share > Share::whole(1))
      return fail(Errc::invalid_argument,
                  fmt::format("{}: its share is {}: above 0 and at most 1 is allowed", at, to_string(device.share)));
    if (device.share > slot->free_share)
      return fail(Errc::no_capacity, fmt::format("{} has {} free, less than its share of {}", at,
                                                 to_string(slot->free_share), to_string(device.share)));
    if (device.memory_bytes > slot->free_bytes)
      return fail(Errc::no_capacity,
                  fmt::format("{} has {} free, less than its {}", at, describe_bytes(slot->free_bytes),
                              describe_bytes(device.memory_bytes)));
  }
  return {};
}

Result<void> check_room(const Pool& pool, const std::vector<DeviceGrant>& devices, Share cpus,
                        const std::map<std::string, Share>& resources, const std::string& what) {
  GPUACTORS_TRY(check_devices(pool, devices, what));
  const auto check = [&](const std::string& name, Share wanted, Share free) -> Result<void> {
    if (wanted < Share{} || wanted > free)
      return fail(wanted < Share{} ? Errc::invalid_argument : Errc::no_capacity,
                  fmt::format("{}: node {} has {} free, it holds {}", what, pool.node->spec.name,
                              ledger_detail::describe_resource(name, free),
                              ledger_detail::describe_amount(name, wanted)));
    return {};
  };
  GPUACTORS_TRY(check("cpus", cpus, pool.free_cpus));
  for (const auto& [name, amount] : resources) {
    const auto it = pool.free_resources.find(name);
    GPUACTORS_TRY(check(name, amount, it == pool.free_resources.end() ? Share{} : it->second));
  }
  return {};
}

std::string name_of(const Lease& lease) {
  return fmt::format("lease {}", lease.id.value());
}

} // namespace

Result<Ledger::Pool*> Ledger::source_of(const Lease& lease) {
  Pool* pool = nullptr;
  if (lease.parent) {
    const auto it = records_.find(lease.parent);
    if (it == records_.end())
      return fail(Errc::not_found, fmt::format("{} was lent by lease {}, which is not there: restore that one first",
                                               name_of(lease), lease.parent.value()));
    pool = &lent_pool(it->second);
  } else if (lease.group) {
    const auto it = groups_.find(lease.group);
    const auto* bundle = it == groups_.end() ? nullptr : it->second.find(lease.bundle);
    if (bundle == nullptr)
      return fail(Errc::not_found,
                  fmt::format("{} is in bundle {} of placement group {}, which is not there: restore it first",
                              name_of(lease), lease.bundle, lease.group.value()));
    pool = bundle->pool.get();
  } else {
    auto* node = table_.find(lease.node);
    if (node == nullptr)
      return fail(Errc::not_found,
                  fmt::format("{} is on node \"{}\", which is not there: add it first", name_of(lease), lease.node));
    return &node->pool;
  }
  if (pool->node->spec.name != lease.node)
    return fail(Errc::invalid_argument, fmt::format("{} is on node \"{}\", but what it draws from is on node \"{}\"",
                                                    name_of(lease), lease.node, pool->node->spec.name));
  return pool;
}

void Ledger::pause() {
  paused_ = true;
}

Ledger::Events Ledger::resume(TimePoint now) {
  paused_ = false;
  Events events;
  pass_time(now, events);
  pump(events);
  return events;
}

Ledger::Events Ledger::expect_nodes(bool expected, TimePoint now) {
  expecting_ = expected;
  recheck_due_ = recheck_due_ || !expected;
  Events events;
  pass_time(now, events);
  quotas_.set_complete(!expected);
  if (!quotas_.limits().empty()) {
    drop_reasons();
    if (!expected)
      look_at_all();
  }
  pump(events);
  return events;
}

Result<void> Ledger::restore(Lease lease) {
  if (!lease.id || !lease.request)
    return fail(Errc::invalid_argument, "a lease to restore needs its id and that of its request");
  if (records_.count(lease.id) > 0 || remains_.count(lease.id) > 0)
    return fail(Errc::already_exists, fmt::format("{} is already there", name_of(lease)));
  if (holders_.count(lease.request) > 0 || queue_.find(lease.request) != nullptr)
    return fail(Errc::already_exists,
                fmt::format("{}: its request {} is already there", name_of(lease), lease.request.value()));
  if (lease.id.value() > most_restored || lease.epoch > most_restored)
    return fail(Errc::invalid_argument, fmt::format("{} has epoch {}: ids and epochs up to {} are allowed",
                                                    name_of(lease), lease.epoch, most_restored));
  if (lease.parent && lease.group)
    return fail(Errc::invalid_argument, fmt::format("{} was lent by lease {} and is in placement group {}: one of "
                                                    "the two is allowed",
                                                    name_of(lease), lease.parent.value(), lease.group.value()));
  // Both lead back to older leases only, so that no lease waits for itself.
  if (lease.parent >= lease.id)
    return fail(Errc::invalid_argument, fmt::format("{} was lent by lease {}, which did not exist before it",
                                                    name_of(lease), lease.parent.value()));
  // Those who do not say who asked say who lent.
  if (!lease.asked_by)
    lease.asked_by = lease.parent;
  if (lease.asked_by >= lease.id)
    return fail(Errc::invalid_argument, fmt::format("{} was asked for by lease {}, which did not exist before it",
                                                    name_of(lease), lease.asked_by.value()));
  GPUACTORS_LET(source, source_of(lease));
  GPUACTORS_TRY(check_room(*source, lease.devices, lease.cpus, lease.resources, name_of(lease)));
  last_lease_ = std::max(last_lease_, lease.id.value());
  last_epoch_ = std::max(last_epoch_, lease.epoch);
  record_lease(std::move(lease), *source);
  return {};
}

Result<void> Ledger::restore_group(GroupId id, GroupRequest request, std::vector<BundleGrant> bundles, TimePoint now) {
  const auto what = fmt::format("placement group {}", id.value());
  if (!id)
    return fail(Errc::invalid_argument, "a group needs an id other than 0");
  GPUACTORS_TRY(validate(request));
  if (groups_.count(id) > 0)
    return fail(Errc::already_exists, what + " is already there");
  GroupRecord group;
  group.key = queue_.next_key(request.priority);
  group.request = std::move(request);
  std::set<int> named;
  for (const auto& bundle : bundles) {
    const auto at = fmt::format("bundle {} of {}", bundle.bundle, what);
    if (bundle.bundle < 0 || bundle.bundle >= group.bundle_count())
      return fail(Errc::invalid_argument, fmt::format("{}: it has bundles 0 to {}", at, group.bundle_count() - 1));
    if (!named.insert(bundle.bundle).second)
      return fail(Errc::invalid_argument, at + " is named twice");
  }
  for (auto& bundle : bundles)
    if (auto* node = table_.find(bundle.node);
        node != nullptr && check_room(node->pool, bundle.devices, bundle.cpus, bundle.resources, what))
      set_aside(group, std::move(bundle), node->pool);
  if (group.request.shrinks && group.bundles.empty() && !bundles.empty())
    return fail(Errc::no_capacity, what + ": nothing of where its bundles were is there and free");
  // As when a device fails: all bundles must be on one node, so the remaining ones cannot stay.
  if (group.request.strategy == GroupStrategy::strict_pack && !group.request.shrinks
      && group.bundles.size() < bundles.size())
    for (auto& bundle : std::exchange(group.bundles, {}))
      give_back(group, bundle);
  now_ = std::max(now_, now);
  group.placed = !group.bundles.empty();
  if (group.placed && group.request.shrinks)
    for (int number = 0; number < group.bundle_count(); ++number)
      if (group.lacks(number))
        group.gone.insert(number);
  auto& kept = groups_.emplace(id, std::move(group)).first->second;
  if (kept.lacks_any()) {
    enqueue_group(id, kept, prospect_of(shape_key_of(id, kept)));
    serve_due_ = recheck_due_ = true;
  }
  return {};
}

} // namespace gpuactors

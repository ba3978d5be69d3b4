#include <gpuactors/ledger/node_table.hpp>
#include <gpuactors/ledger/refusal.hpp>

#include <algorithm>
#include <optional>

namespace gpuactors::ledger_detail {

namespace {

struct DeviceCount {
  std::int64_t of_type = 0;
  std::int64_t with_share = 0;
  std::int64_t with_both = 0;
  Share most_share;
  std::uint64_t most_bytes = 0;
};

DeviceCount count_devices(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  DeviceCount count;
  for (const auto& slot : pool.slots) {
    const auto& spec = pool.node->device(slot);
    if (!slot.ok || !is_of_type(spec.accelerator_type, request.accelerator_type))
      continue;
    ++count.of_type;
    auto need = need_on(request, spec.memory_bytes);
    const auto share = lens.share(pool, slot);
    auto bytes = lens.bytes(pool, slot);
    count.most_share = std::max(count.most_share, share);
    // A request for memory alone is also limited by the share that is left.
    if (request.gpus == Share{}) {
      bytes = std::min(bytes, memory_for_share(spec.memory_bytes, share));
      need.share = std::min(need.share, share);
    }
    if (share < need.share)
      continue;
    ++count.with_share;
    count.most_bytes = std::max(count.most_bytes, bytes);
    count.with_both += bytes >= need.bytes ? 1 : 0;
  }
  return count;
}

std::optional<Refusal> refuse_devices(const Pool& pool, const ResourceRequest& request, const Lens& lens) {
  if (!wants_devices(request) && request.accelerator_type.empty())
    return std::nullopt;
  const auto count = count_devices(pool, request, lens);
  if (count.of_type == 0)
    return Refusal{Constraint::accelerator, static_cast<std::int64_t>(pool.slots.size()), {}};
  if (!wants_devices(request))
    return std::nullopt;
  const bool whole = wants_whole_devices(request);
  const auto wanted = static_cast<std::int64_t>(device_count(request));
  if (count.with_share < wanted)
    return Refusal{Constraint::devices, whole ? count.with_share : count.most_share.units(), {}};
  if (count.with_both < wanted)
    return Refusal{Constraint::memory, whole ? count.with_both : static_cast<std::int64_t>(count.most_bytes), {}};
  return std::nullopt;
}

} // namespace

Refusal refusal_of(const Pool& pool, const ResourceRequest& request, const Lens& lens, bool new_lease) {
  const auto& node = *pool.node;
  if (needs_node(request) && request.node != node.spec.name)
    return {Constraint::name, 0, {}};
  if (!has_type(node.types, request.type))
    return {Constraint::type, 0, {}};
  if (new_lease && !lens.covers(node))
    return {Constraint::draining, 0, {}};
  for (const auto& [key, condition] : request.labels)
    if (const auto* value = label_of(node, key); !condition.holds(value))
      return {Constraint::label, value == nullptr ? 0 : 1, key};
  if (auto refusal = refuse_devices(pool, request, lens))
    return *refusal;
  if (lens.cpus(pool) < request.cpus)
    return {Constraint::cpus, lens.cpus(pool).units(), {}};
  for (const auto& [name, amount] : request.resources)
    if (lens.resource(pool, name) < amount)
      return {Constraint::resource, lens.resource(pool, name).units(), name};
  if (node.suspended && lens.amount == Lens::Amount::free)
    return {Constraint::suspended, 0, {}};
  return {};
}

} // namespace gpuactors::ledger_detail

#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/ledger/need.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace gpuactors::ledger_detail {

namespace {

// All but those that `counting_part` clears.
auto fields(const ResourceRequest& r) {
  return std::tie(r.priority, r.gpus, r.memory_bytes, r.cpus, r.accelerator_type, r.node, r.node_is_soft, r.strategy,
                  r.group, r.bundle, r.parent, r.type, r.resources, r.labels, r.owner);
}

// `of_memory` are the units of a request by memory alone.
std::int64_t charge_of(const ResourceRequest& request, std::int64_t of_memory) {
  if (request.group)
    return 0;
  return wants_memory_alone(request) ? of_memory : request.gpus.units();
}

std::int64_t charge_of(const ShapeKey& key, std::int64_t of_memory) {
  if (!key.is_group())
    return charge_of(key.request, of_memory);
  std::int64_t sum = 0;
  for (const auto& bundle : key.bundles)
    sum += charge_of(bundle, of_memory);
  return sum;
}

} // namespace

Need need_on(const ResourceRequest& request, std::uint64_t device_bytes) noexcept {
  if (wants_whole_devices(request))
    return {Share::whole(1), request.memory_bytes > 0 ? request.memory_bytes : device_bytes};
  if (request.gpus == Share{})
    return {share_for_memory(device_bytes, request.memory_bytes), request.memory_bytes};
  if (request.memory_bytes == 0)
    return {request.gpus, memory_for_share(device_bytes, request.gpus)};
  return {request.gpus, request.memory_bytes};
}

std::string describe_bytes(std::uint64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, format_bytes(bytes));
}

std::string describe_amount(std::string_view resource, Share amount) {
  return resource == host_memory_resource && amount >= Share{}
             ? describe_bytes(static_cast<std::uint64_t>(amount.units()))
             : to_string(amount);
}

std::string describe_resource(std::string_view resource, Share amount) {
  return fmt::format("{} {}", describe_amount(resource, amount),
                     resource == host_memory_resource ? "of host memory" : resource);
}

std::string describe_devices(const ResourceRequest& request) {
  const auto type = request.accelerator_type.empty() ? std::string{} : " of type " + request.accelerator_type;
  if (wants_whole_devices(request)) {
    const auto count = device_count(request);
    return fmt::format("{} device{}{}", count, count == 1 ? "" : "s", type);
  }
  if (request.gpus > Share{})
    return fmt::format("{} of a device{}", to_string(request.gpus), type);
  if (request.memory_bytes > 0)
    return fmt::format("{} of a device{}", describe_bytes(request.memory_bytes), type);
  return fmt::format("a device{}", type);
}

ResourceRequest counting_part(ResourceRequest request) {
  request.name.clear();
  request.queue_timeout.reset();
  request.wait_for_nodes = false;
  request.queue = true;
  return request;
}

std::int64_t least_charge(const ResourceRequest& request) noexcept {
  return charge_of(request, 1);
}

std::int64_t least_charge(const ShapeKey& key) noexcept {
  return charge_of(key, 1);
}

std::int64_t most_charge(const ShapeKey& key) noexcept {
  return charge_of(key, Share::one);
}

bool ShapeLess::operator()(const ShapeKey& a, const ShapeKey& b) const {
  if (a.is_group() || b.is_group()) {
    const auto left = std::tuple{a.bundles.size(), a.request.priority, a.strategy, a.keeper, a.request.owner};
    const auto right = std::tuple{b.bundles.size(), b.request.priority, b.strategy, b.keeper, b.request.owner};
    if (left != right)
      return left < right;
    return std::lexicographical_compare(a.bundles.begin(), a.bundles.end(), b.bundles.begin(), b.bundles.end(),
                                        [](const auto& x, const auto& y) { return fields(x) < fields(y); });
  }
  return fields(a.request) < fields(b.request);
}

} // namespace gpuactors::ledger_detail

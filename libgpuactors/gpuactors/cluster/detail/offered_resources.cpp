#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/device/accelerators.hpp>
#include <gpuactors/wire/resource_units.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

namespace {

Result<Share> cpus_of(const OfferedResources& offered) {
  if (offered.cpus < 0)
    return Share::whole(usable_cpus());
  return Share::from_double(offered.cpus, fmt::format("cpus of node {}", offered.name));
}

} // namespace

Result<v1::Node> describe_node(const OfferedResources& offered) {
  GPUACTORS_LET(cpus, cpus_of(offered));
  std::map<std::string, Share> resources;
  for (const auto& [name, amount] : offered.resources) {
    GPUACTORS_TRY(check_not_host_memory(name, "host_memory_bytes (--host-memory)"));
    GPUACTORS_LET(share, Share::from_double(amount, fmt::format("resource {} of node {}", name, offered.name)));
    resources.emplace(name, share);
  }
  GPUACTORS_TRY(check_whole_units(resources));
  GPUACTORS_LET(found, discover_accelerators(offered.accelerator_root, resources));
  resources.merge(found);
  const auto bytes = offered.host_memory_bytes ? *offered.host_memory_bytes : MemoryReader{}.limit_bytes();
  GPUACTORS_TRY(check_host_memory(fmt::format("host_memory_bytes of node {}", offered.name), bytes));
  if (bytes > 0)
    resources.emplace(host_memory_resource, host_memory_amount(bytes));

  v1::Node node;
  node.set_name(offered.name);
  node.set_cpu_units(cpus.units());
  node.mutable_labels()->insert(offered.labels.begin(), offered.labels.end());
  *node.mutable_resource_units() = to_wire(resources);
  return node;
}

Result<v1::Node> describe_node(const OfferedResources& offered, v1::Node seen) {
  GPUACTORS_LET(node, describe_node(offered));
  seen.MergeFrom(node);
  return seen;
}

} // namespace gpuactors::detail

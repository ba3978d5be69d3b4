#include <gpuactors/agent/memory_reader.hpp>
#include <gpuactors/base/control_groups.hpp>
#include <gpuactors/base/host_memory.hpp>
#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

namespace {

Result<Share> cpus_of(const OfferedResources& offered) {
  if (offered.cpus < 0)
    return Share::whole(usable_cpus());
  return Share::from_double(offered.cpus, fmt::format("cpus of node {}", offered.name));
}

} // namespace

Result<NodeOptions> node_options(const OfferedResources& offered) {
  NodeOptions options;
  options.name = offered.name;
  options.labels = offered.labels;
  GPUACTORS_LET(cpus, cpus_of(offered));
  options.cpus = cpus;
  for (const auto& [name, amount] : offered.resources) {
    GPUACTORS_TRY(check_not_host_memory(name, "host_memory_bytes (--host-memory)"));
    GPUACTORS_LET(share, Share::from_double(amount, fmt::format("resource {} of node {}", name, offered.name)));
    options.resources.emplace(name, share);
  }
  GPUACTORS_TRY(check_whole_units(options.resources));
  GPUACTORS_LET(found, discover_accelerators(offered.accelerator_root, options.resources));
  options.resources.merge(found);
  const auto bytes = offered.host_memory_bytes ? *offered.host_memory_bytes : MemoryReader{}.limit_bytes();
  GPUACTORS_TRY(check_host_memory(fmt::format("host_memory_bytes of node {}", offered.name), bytes));
  if (bytes > 0)
    options.resources.emplace(host_memory_resource, host_memory_amount(bytes));
  return options;
}

} // namespace gpuactors::detail

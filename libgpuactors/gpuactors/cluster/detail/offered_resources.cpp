#include <gpuactors/cluster/detail/offered_resources.hpp>
#include <gpuactors/device/accelerators.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace gpuactors::detail {

namespace {

Result<Share> cpus_of(const OfferedResources& offered) {
  if (offered.cpus < 0)
    return Share::whole(std::max(1U, std::thread::hardware_concurrency()));
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
    GPUACTORS_LET(share, Share::from_double(amount, fmt::format("resource {} of node {}", name, offered.name)));
    options.resources.emplace(name, share);
  }
  GPUACTORS_TRY(check_whole_units(options.resources));
  GPUACTORS_LET(found, discover_accelerators(offered.accelerator_root, options.resources));
  options.resources.merge(found);
  return options;
}

} // namespace gpuactors::detail

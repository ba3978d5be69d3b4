#include <property/books.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace history {

namespace {

using gpuactors::DeviceGrant;
using gpuactors::DeviceState;
using gpuactors::Lease;
using gpuactors::Ledger;
using gpuactors::NodeView;
using gpuactors::Share;

struct Used {
  Share share;
  std::uint64_t bytes = 0;
  int holders = 0;
  bool whole = false;
};

void add(Used& used, const DeviceGrant& device) {
  used.share += device.share;
  used.bytes += device.memory_bytes;
  used.whole = used.whole || device.share == Share::whole(1);
  // Of what was lost, bytes alone may be kept.
  used.holders += device.share > Share{} ? 1 : 0;
}

const DeviceGrant* device_in(const std::vector<DeviceGrant>& devices, int index) {
  const auto it = std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d.index == index; });
  return it == devices.end() ? nullptr : &*it;
}

// All that is drawn from one source stays within it.
std::string overdrawn(const std::string& what, const std::vector<DeviceGrant>& source,
                      const std::vector<const Lease*>& leases) {
  std::map<int, Used> used;
  for (const auto* lease : leases)
    for (const auto& device : lease->devices)
      add(used[device.index], device);
  for (const auto& [index, sum] : used) {
    const auto* has = device_in(source, index);
    if (has == nullptr || sum.share > has->share || sum.bytes > has->memory_bytes)
      return what + " has given away more of device " + std::to_string(index) + " than it has";
  }
  return {};
}

std::string check_nodes(const std::vector<NodeView>& nodes, const std::map<std::pair<std::string, int>, Used>& used,
                        bool exact) {
  for (const auto& node : nodes)
    for (const auto& device : node.devices) {
      const auto it = used.find({node.name, device.index});
      const auto sum = it == used.end() ? Used{} : it->second;
      const auto at = "device " + std::to_string(device.index) + " of node " + node.name;
      if (device.state == DeviceState::failed) {
        if (sum.holders > 0)
          return at + " has failed and is held";
        continue;
      }
      if (sum.share > Share::whole(1) || sum.bytes > device.spec.memory_bytes)
        return at + " is granted beyond what it has";
      if (sum.whole && sum.holders > 1)
        return at + " is held exclusively and by another";
      const auto free = Share::whole(1) - sum.share;
      const auto free_bytes = device.spec.memory_bytes - sum.bytes;
      if (exact ? device.free_share != free || device.free_memory_bytes != free_bytes
                : device.free_share > free || device.free_memory_bytes > free_bytes)
        return at + ": what is held and what is free do not add up";
    }
  return {};
}

} // namespace

std::string broken_books(const Ledger& ledger) {
  const auto nodes = ledger.nodes();
  const auto leases = ledger.leases();
  std::map<std::pair<std::string, int>, Used> used;
  std::map<gpuactors::LeaseId, std::vector<const Lease*>> lent;
  std::map<std::pair<gpuactors::GroupId, int>, std::vector<const Lease*>> drawn;
  std::set<gpuactors::GroupId> groups;
  // What a lease lends on is kept together when it ends: then nodes have less free than the leases say.
  bool exact = true;
  for (const auto& node : nodes)
    for (const auto& device : node.devices)
      groups.insert(device.groups.begin(), device.groups.end());
  for (const auto id : groups)
    for (const auto& bundle : ledger.bundles_of(id))
      for (const auto& device : bundle.devices)
        add(used[{bundle.node, device.index}], device);
  for (const auto& lease : leases) {
    const auto name = "lease " + std::to_string(lease.id.value());
    if (std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == lease.node; }))
      return name + " is on a node that is not there";
    if (const auto* held = ledger.lease_of(lease.request); held == nullptr || held->id != lease.id)
      return name + " is not what its request holds";
    if (ledger.is_pending(lease.request))
      return name + " is held by a request that waits";
    if (lease.parent) {
      exact = exact && ledger.find_lease(lease.parent) != nullptr;
      lent[lease.parent].push_back(&lease);
    } else if (lease.group) {
      drawn[{lease.group, lease.bundle}].push_back(&lease);
    } else {
      for (const auto& device : lease.devices)
        add(used[{lease.node, device.index}], device);
    }
  }
  const auto works = [&](const std::string& name, int index) {
    for (const auto& node : nodes)
      if (node.name == name)
        return node.devices[static_cast<std::size_t>(index)].state != DeviceState::failed;
    return false;
  };
  const auto remains = ledger.remains();
  const auto lends = [&](const Lease& rest) {
    return std::any_of(remains.begin(), remains.end(), [&](const Lease& other) { return other.id == rest.parent; });
  };
  for (const auto& rest : remains) {
    // A part of what has ended, and is still lent to others.
    exact = exact && (!rest.parent || lends(rest));
    if (rest.parent)
      continue;
    for (const auto& device : rest.devices)
      if (works(rest.node, device.index))
        add(used[{rest.node, device.index}], device);
  }
  for (const auto& [id, borrowers] : lent)
    if (const auto* lender = ledger.find_lease(id))
      if (auto trouble = overdrawn("lease " + std::to_string(id.value()), lender->devices, borrowers); !trouble.empty())
        return trouble;
  for (const auto& [key, drawers] : drawn) {
    const auto bundles = ledger.bundles_of(key.first);
    const auto it = std::find_if(bundles.begin(), bundles.end(),
                                 [number = key.second](const auto& b) { return b.bundle == number; });
    if (it == bundles.end())
      return "a lease is in a bundle that is not there";
    if (auto trouble = overdrawn("a bundle", it->devices, drawers); !trouble.empty())
      return trouble;
  }
  return check_nodes(nodes, used, exact);
}

} // namespace history

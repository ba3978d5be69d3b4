// The check of the ledger's invariants: recomputes all sums.
#include <gpuactors/ledger/check.hpp>
#include <gpuactors/ledger/ledger.hpp>

namespace gpuactors {

namespace {

using ledger_detail::Pool;

// The sum of everything taken from one pool.
struct Sum {
  std::map<int, DeviceGrant> devices;
  Share cpus;
  std::map<std::string, Share> resources;

  void add(const std::vector<DeviceGrant>& more, Share more_cpus, const std::map<std::string, Share>& more_resources) {
    for (const auto& device : more) {
      auto& sum = devices[device.index];
      sum.share += device.share;
      sum.memory_bytes += device.memory_bytes;
    }
    cpus += more_cpus;
    for (const auto& [name, amount] : more_resources)
      resources[name] += amount;
  }
};

void check_pool(const Pool& pool, Sum& sum) {
  for (const auto& slot : pool.slots) {
    const auto taken = sum.devices[slot.index];
    GPUACTORS_LEDGER_CHECK(slot.free_share + taken.share == slot.share, "a device's shares do not add up");
    GPUACTORS_LEDGER_CHECK(slot.free_bytes + taken.memory_bytes == slot.bytes, "a device's memory does not add up");
  }
  GPUACTORS_LEDGER_CHECK(sum.devices.size() == pool.slots.size(), "a device is held that its pool does not have");
  GPUACTORS_LEDGER_CHECK(pool.free_cpus + sum.cpus == pool.cpus, "cpus do not add up");
  for (const auto& [name, amount] : pool.resources)
    GPUACTORS_LEDGER_CHECK(pool.free_resources.at(name) + sum.resources[name] == amount,
                           "a custom resource does not add up");
}

} // namespace

void Ledger::check() const {
  std::map<const Pool*, Sum> sums;
  std::map<LeaseId, std::size_t> lent;
  std::map<std::string, Share, std::less<>> used;
  const auto count = [&](const std::string& owner, const std::vector<DeviceGrant>& devices) {
    for (const auto& device : devices)
      if (!owner.empty())
        used[owner] += device.share;
  };
  std::size_t held = 0;
  for (const auto& [id, record] : records_) {
    const auto& lease = record.lease;
    sums[record.source].add(lease.devices, lease.cpus, lease.resources);
    held += record.ended ? 0 : 1;
    if (ledger_detail::counts_in_quota(lease))
      count(lease.owner, lease.devices);
    if (lease.parent)
      ++lent[lease.parent];
    if (lease.group)
      GPUACTORS_LEDGER_CHECK(groups_.at(lease.group).leases.count(id) == 1, "a group does not know a lease in it");
  }
  GPUACTORS_LEDGER_CHECK(held == holders_.size(), "leases and their holders disagree");
  for (const auto& [id, group] : groups_) {
    GPUACTORS_LEDGER_CHECK(group.lacks_any() == (queue_.find(group.key) != nullptr),
                           "a group neither waits nor has its bundles");
    for (const auto& bundle : group.bundles) {
      sums[bundle.source].add(bundle.grant.devices, bundle.grant.cpus, bundle.grant.resources);
      count(group.request.owner, bundle.grant.devices);
    }
  }
  for (const auto& [id, rest] : remains_) {
    GPUACTORS_LEDGER_CHECK(records_.count(id) == 0, "a lease is held and lost");
    GPUACTORS_LEDGER_CHECK(!rest.parent || records_.count(rest.parent) == 1,
                           "what is kept of a lost lease is a part of one that is not there");
    if (rest.parent)
      continue;
    sums[&table_.find(rest.node)->pool].add(rest.devices, rest.cpus, rest.resources);
    count(rest.owner, rest.devices);
  }
  GPUACTORS_LEDGER_CHECK(used == quotas_.used(), "what an owner holds does not add up");
  // Every checked pool is removed from `sums`: a remaining entry belongs to a pool that does not exist.
  const auto check_one = [&](const Pool& pool) {
    check_pool(pool, sums[&pool]);
    sums.erase(&pool);
  };
  for (const auto& [name, node] : table_.nodes())
    check_one(node.pool);
  for (const auto& [id, group] : groups_)
    for (const auto& bundle : group.bundles)
      check_one(*bundle.pool);
  for (const auto& [id, record] : records_) {
    GPUACTORS_LEDGER_CHECK(record.borrowers == lent[id], "a lease does not know what it has lent");
    GPUACTORS_LEDGER_CHECK(!record.ended || record.borrowers > 0, "a lease that has ended still holds its resources");
    if (record.lent)
      check_one(*record.lent);
  }
  GPUACTORS_LEDGER_CHECK(sums.empty(), "something is held in a pool that does not exist");
  for (const auto& [priority, claim] : claims_)
    GPUACTORS_LEDGER_CHECK(!claim.reservation || queue_.find(claim.holder) != nullptr,
                           "something is held back for a request that does not wait");
  table_.check();
  queue_.check();
}

} // namespace gpuactors

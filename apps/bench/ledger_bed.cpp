#include "ledger_bed.hpp"

#include <malloc.h>

#include <cstdlib>

namespace gpuactors::bench {

namespace {

NodeSpec node_of(const std::string& name, int devices) {
  NodeSpec node;
  node.name = name;
  node.cpus = Share::whole(64);
  node.devices.assign(static_cast<std::size_t>(devices), DeviceSpec{"", ledger_device_bytes, ""});
  return node;
}

double allocated() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

} // namespace

ResourceRequest share_of(Share gpus) {
  ResourceRequest request;
  request.gpus = gpus;
  return request;
}

// -- LedgerBed ------------------------------------------------------------------------------------

LedgerBed::LedgerBed(int nodes, int devices) {
  for (int i = 0; i < nodes; ++i)
    if (!ledger.add_node(node_of("n" + std::to_string(100'000 + i), devices), TimePoint{}))
      std::abort();
}

Lease LedgerBed::acquire(const ResourceRequest& request) {
  const auto events = ledger.submit(RequestId{++last}, request, TimePoint{});
  if (!events.front().lease)
    std::abort();
  return *events.front().lease;
}

Ledger::Events LedgerBed::release(const Lease& lease) {
  auto events = ledger.release(lease.id, lease.epoch, TimePoint{});
  if (!events)
    std::abort();
  return std::move(*events);
}

void LedgerBed::make_and_remove_group(std::size_t devices) {
  GroupRequest group;
  group.bundles.assign(devices, share_of(Share::whole(1)));
  const GroupId id{++last};
  ledger.submit_group(id, std::move(group), TimePoint{});
  if (!ledger.release_group(id, TimePoint{}))
    std::abort();
}

// -- WaitingBed -----------------------------------------------------------------------------------

WaitingBed::WaitingBed(std::uint64_t count) {
  const auto whole = share_of(Share::whole(1));
  for (int i = 0; i < 8; ++i)
    held.push_back(bed.acquire(whole));
  const auto before = allocated();
  for (std::uint64_t i = 0; i < count; ++i) {
    auto request = whole;
    request.memory_bytes = ledger_device_bytes / 2 + i;
    bed.ledger.submit(RequestId{++bed.last}, request, TimePoint{});
  }
  bytes_each = (allocated() - before) / static_cast<double>(count);
}

void WaitingBed::wake() {
  auto& lease = held[next++ % held.size()];
  const auto events = bed.release(lease);
  if (!events.back().lease)
    std::abort();
  lease = *events.back().lease;
  auto request = share_of(Share::whole(1));
  request.memory_bytes = ledger_device_bytes / 4 + next;
  bed.ledger.submit(RequestId{++bed.last}, request, TimePoint{});
}

} // namespace gpuactors::bench

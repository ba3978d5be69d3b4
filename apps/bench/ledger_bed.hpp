// A ledger full of nodes, and one with a long queue: what is measured and counted of the scheduler by itself.
#pragma once

#include <gpuactors/ledger/ledger.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpuactors::bench {

inline constexpr std::uint64_t ledger_device_bytes = 80'000'000'000;

[[nodiscard]] ResourceRequest share_of(Share gpus);

/// A ledger with nodes of so many devices each, and the ids that it has seen. What goes wrong ends the program.
struct LedgerBed {
  explicit LedgerBed(int nodes, int devices = 8);

  Lease acquire(const ResourceRequest& request);
  Ledger::Events release(const Lease& lease);

  /// A grant that is given back at once.
  void grant_and_release(const ResourceRequest& request) {
    (void)release(acquire(request));
  }

  /// A group of so many whole devices, made and removed.
  void make_and_remove_group(std::size_t devices);

  Ledger ledger;
  std::uint64_t last = 0;
};

/// A full node and requests that wait for it, all different.
struct WaitingBed {
  explicit WaitingBed(std::uint64_t count);

  /// A release, the next one's grant, and a new one at the end of the queue.
  void wake();

  LedgerBed bed{1};
  std::vector<Lease> held;
  std::size_t next = 0;
  /// Memory of each that waits.
  double bytes_each = 0;
};

} // namespace gpuactors::bench

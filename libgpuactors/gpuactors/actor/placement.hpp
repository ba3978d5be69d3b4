// Placement: a lease opened in a process, with one device context for each device of the lease.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/device/context.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gpuactors {

/// The quotas of the leases in this process, so a lease that borrows from another counts against both. Any thread.
class QuotaTable {
public:
  void add(LeaseId lease, int device, std::shared_ptr<Quota> quota);
  void remove(LeaseId lease);
  /// Returns a lease's quota on a device; null if the lease is not known here.
  [[nodiscard]] std::shared_ptr<Quota> find(LeaseId lease, int device) const;
  /// Returns the bytes that the lease holds on all its devices together.
  [[nodiscard]] std::uint64_t used(LeaseId lease) const;

private:
  mutable std::mutex mutex_;
  std::unordered_map<LeaseId, std::vector<std::pair<int, std::shared_ptr<Quota>>>> quotas_;
};

/// The device contexts of one lease. Opened, used and destroyed by the holder's thread.
class Placement {
public:
  /// Opens a context on each device of `lease`. `devices` are the node's; `runtime_source` says whether kernels may be
  /// compiled from source there.
  /// @param holder is who it is for, in the texts of errors; the place is added.
  /// @param control is told of a device that a sticky error, of another holder, had lost to this process before; null:
  ///        nobody is.
  /// @returns the errors of `Context::open`, naming the device; `worker_died` for a device that was lost before: in
  ///          another process, the same lease works.
  static Result<std::unique_ptr<Placement>> open(LeaseInfo lease, const std::vector<std::shared_ptr<Device>>& devices,
                                                 const std::string& holder, std::shared_ptr<QuotaTable> quotas,
                                                 bool runtime_source = true, HolderControl* control = nullptr);

  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  [[nodiscard]] const LeaseInfo& lease() const noexcept {
    return lease_;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return contexts_.size();
  }

  /// Returns the context of the i-th device of the lease.
  [[nodiscard]] Context& context(std::size_t i) {
    return *contexts_.at(i);
  }

  /// Returns the number of the run of a task that begins now, from 1.
  [[nodiscard]] std::uint64_t next_run() noexcept {
    return ++last_run_;
  }

  /// Frees leftover allocations on all devices; see `Context::reclaim`.
  Result<std::uint64_t> reclaim();

  /// Returns the indices of devices that a sticky error has lost to this process; usually none.
  [[nodiscard]] std::vector<int> lost_devices() const;

private:
  explicit Placement(LeaseInfo lease, std::shared_ptr<QuotaTable> quotas)
    : lease_(std::move(lease)), quotas_(std::move(quotas)) {
    // nop
  }

  LeaseInfo lease_;
  std::shared_ptr<QuotaTable> quotas_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::uint64_t last_run_ = 0;
};

} // namespace gpuactors

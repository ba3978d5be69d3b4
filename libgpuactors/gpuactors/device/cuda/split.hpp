// The one split of a device's SMs into groups, and who runs on which of them.
#pragma once

#include <gpuactors/device/cuda/primary.hpp>
#include <gpuactors/device/detail/compute_groups.hpp>
#include <gpuactors/device/types.hpp>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::cuda {

/// The groups of one device. There is one object for a device in a process, for groups of two splits overlap. Any
/// thread.
class Split {
public:
  using Holder = detail::ComputeGroups::Holder;

  /// Splits the device as finely as it allows. A driver or a chip that cannot do it gives a split without groups, whose
  /// `reason` says why.
  /// @returns `context_lost` when the device is lost.
  static Result<std::shared_ptr<Split>> make(const std::shared_ptr<Primary>& primary);

  /// Why fractions are not held apart; empty: they are. It may be found out later than at the start.
  [[nodiscard]] std::string reason() const;

  /// Takes groups for `share` and makes a green context of them. The primary context is current.
  /// @returns `unsupported` when the device cannot do it; later calls then say so at once.
  struct Part {
    Holder holder = 0;
    CUgreenCtx context = nullptr;
    std::vector<int> groups;
    /// As the driver counts them in the context.
    int sms = 0;
  };
  Result<Part> take(Primary& primary, Share share);

  /// Ends a part; its streams are gone. The primary context is current.
  void give_back(const Driver& driver, const Part& part) noexcept;

  [[nodiscard]] bool is_shared(const Part& part) const;

  /// The percentage of the device's SMs that MPS gives this process, which green contexts do not hold against; 100: no
  /// limit, or no MPS.
  [[nodiscard]] int percent() const noexcept {
    return percent_;
  }

  /// How a fraction is held where there are no groups: `unenforced`, `capped` (MPS), or `time_sliced` (a process of its
  /// own beside others on the device).
  [[nodiscard]] ComputeEnforcement without_groups() const noexcept {
    return without_groups_;
  }

  [[nodiscard]] int group_count() const noexcept {
    return static_cast<int>(groups_.size());
  }

private:
  explicit Split(std::vector<CUdevResource> groups) : groups_(std::move(groups)), allocator_(group_count()) {
    // nop
  }

  /// One without groups.
  Split(std::string reason, ComputeEnforcement without_groups, int percent = 100)
    : percent_(percent), without_groups_(without_groups), allocator_(0), reason_(std::move(reason)) {
    // nop
  }

  Result<void> create(Primary& primary, Part& part);

  const std::vector<CUdevResource> groups_;
  const int percent_ = 100;
  const ComputeEnforcement without_groups_ = ComputeEnforcement::unenforced;
  mutable std::mutex mutex_;
  detail::ComputeGroups allocator_;
  std::string reason_;
};

/// The splits of this process' devices. Any thread.
class Splits {
public:
  /// The split of the device, made when nobody holds one.
  Result<std::shared_ptr<Split>> of(const std::shared_ptr<Primary>& primary);

private:
  std::mutex mutex_;
  std::map<int, std::weak_ptr<Split>> splits_;
};

} // namespace gpuactors::cuda

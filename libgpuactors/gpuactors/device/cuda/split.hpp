// The one split of a device's SMs into groups, and who runs on which of them.
#pragma once

#include <gpuactors/device/cuda/images.hpp>
#include <gpuactors/device/cuda/primary.hpp>
#include <gpuactors/device/detail/compute_groups.hpp>
#include <gpuactors/device/types.hpp>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::cuda {

/// The groups of one device. There is one object for a device in a process, for groups of two splits overlap. What is
/// left of the SMs when all groups are made goes with the last group, which is larger by so much: alone it could run no
/// kernel whose blocks come in clusters of four. Any thread.
///
/// Green contexts stay when nobody holds them, for the next who gets the same groups: the driver waits for all that
/// runs in the process to make one, and keeps 4 MiB of the device for each that has ended (driver 580). Those that were
/// used least lately go where there are too many, and where the driver makes no more.
class Split {
public:
  using Holder = detail::ComputeGroups::Holder;

  /// Splits the device as finely as it allows. A driver or a chip that cannot do it gives a split without groups, whose
  /// `reason` says why.
  /// @returns `context_lost` when the device is lost.
  static Result<std::shared_ptr<Split>> make(const std::shared_ptr<Primary>& primary);
  Split(const Split&) = delete;
  Split& operator=(const Split&) = delete;
  /// All parts were given back.
  ~Split();

  /// Why fractions are not held apart; empty: they are. It may be found out later than at the start.
  [[nodiscard]] std::string reason() const;

  /// Takes groups for `share`, and the green context of them: holders of the same groups share it, for a device has a
  /// limited number (an H200 a little more than 100). A new one has the kernels of `images` from the start. The primary
  /// context is current.
  /// @returns `unsupported` when the device cannot do it; later calls then say so at once.
  struct Part {
    Holder holder = 0;
    CUgreenCtx context = nullptr;
    std::vector<int> groups;
    /// As the driver counts them in the context.
    int sms = 0;
    /// The context whose events its streams take; null: the primary one.
    CUcontext events = nullptr;
  };
  Result<Part> take(Primary& primary, Share share, Images& images);

  /// Ends a part; its streams are gone.
  void give_back(const Part& part) noexcept;

  /// Streams of a part; one at a time for the whole device, for the driver does not order threads that use one green
  /// context.
  Result<CUstream> make_stream(Primary& primary, const Part& part);
  void destroy_stream(const Driver& driver, CUstream stream) noexcept;

  /// An event for the streams of a part. The primary context is current.
  Result<CUevent> make_event(Primary& primary, const Part& part);

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
  /// What a split of the device gives.
  struct Groups {
    std::vector<CUdevResource> equal;
    /// SMs that are in none.
    CUdevResource rest{};
  };

  Split(std::shared_ptr<Primary> primary, Groups groups)
    : primary_(std::move(primary)), groups_(std::move(groups.equal)), rest_(groups.rest), allocator_(group_count()) {
    // nop
  }

  /// One without groups.
  Split(std::string reason, ComputeEnforcement without_groups, int percent = 100)
    : percent_(percent), without_groups_(without_groups), allocator_(0), reason_(std::move(reason)) {
    // nop
  }

  /// The groups of the device, as small as it makes them.
  static Result<Groups> split(Primary& primary);

  /// A green context, which may have no holder just now.
  struct Green {
    CUgreenCtx context = nullptr;
    int sms = 0;
    CUcontext events = nullptr;
    int holders = 0;
    /// How many images its kernels are of.
    std::size_t images = 0;
    /// When somebody last came to it, by a count of those who came.
    std::uint64_t used = 0;
  };

  /// Joins the green context of the part's groups, which it makes for the first. Only what is quick is done under the
  /// mutex: others make and end streams meanwhile, and must not wait for the device.
  Result<void> join(Primary& primary, Part& part, Images& images);
  /// Makes one, if need be in the place of those that nobody holds.
  Result<Green> make_green(Primary& primary, const std::vector<int>& groups);
  Result<Green> make_one(Primary& primary, const std::vector<int>& groups) const;
  Result<CUgreenCtx> create(Primary& primary, std::vector<CUdevResource> resources, Errc otherwise) const;
  /// Takes out the one that nobody holds and that was used least lately, if there are more than `kept`. Their mutex is
  /// held.
  CUgreenCtx take_spare(std::size_t kept);

  /// Null where there are no groups.
  const std::shared_ptr<Primary> primary_;
  const std::vector<CUdevResource> groups_;
  const CUdevResource rest_{};
  const int percent_ = 100;
  const ComputeEnforcement without_groups_ = ComputeEnforcement::unenforced;
  /// Guards the green contexts and what is made of them. Never taken with the other one held.
  std::mutex greens_mutex_;
  std::map<std::vector<int>, Green> greens_;
  std::uint64_t uses_ = 0;
  /// Guards what follows.
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

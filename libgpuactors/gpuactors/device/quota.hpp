// A memory limit that allocation cannot exceed: reserve, try, give back on failure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace gpuactors {

/// Counts the bytes that one lease holds of one device against its limit.
///
/// A quota may have a parent, the quota of the lease that lent to it. The parent counts the same bytes, so a task and
/// the children inside its lease stay below one limit together. All members: any thread; but for what is
/// reserved beside, lock-free. The pattern (reserve, try, give back) is that of RMM's limiting_resource_adaptor.
class Quota {
public:
  /// @param holder the name of the holder for error texts, for example "actor trainer".
  /// @param limit_bytes the limit of reserved bytes at any instant.
  Quota(std::string holder, std::uint64_t limit_bytes, std::shared_ptr<Quota> parent = nullptr);

  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;
  ~Quota();

  /// Reserves `bytes`, or fails with `out_of_memory`, naming request, use and limit, and how much of that use is of
  /// quotas below. Never exceeds the limit. An attempt that the parent refuses counts here for an instant.
  Result<void> reserve(std::uint64_t bytes) {
    return take(bytes, false);
  }

  /// Returns reserved bytes to the quota.
  void release(std::uint64_t bytes) noexcept {
    give_back(bytes, false);
  }

  /// Reserves bytes for memory that a library beside this one allocates (`Reservation`), and tells who keeps freed
  /// memory here, so that both fit on the device.
  Result<void> reserve_beside(std::uint64_t bytes);
  void release_beside(std::uint64_t bytes) noexcept;

  /// Calls `told` with the bytes that are beside, whenever they change: those that are reserved so, and the limits of
  /// quotas below, which may keep as much of what they have freed. Null: nobody. Waits for a call that is being made.
  /// `told` must not use the quota.
  void on_beside(std::function<void(std::uint64_t)> told);

  [[nodiscard]] std::uint64_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }

  /// Returns the highest use so far.
  [[nodiscard]] std::uint64_t peak() const noexcept {
    return peak_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t limit() const noexcept {
    return limit_;
  }

  [[nodiscard]] const std::string& holder() const noexcept {
    return holder_;
  }

private:
  /// @param for_below bytes of a quota below.
  [[nodiscard]] Error refusal(std::uint64_t bytes, std::uint64_t used, bool for_below) const;
  Result<void> take(std::uint64_t bytes, bool for_below);
  void give_back(std::uint64_t bytes, bool for_below) noexcept;
  void change_beside(std::int64_t bytes);

  std::string holder_;
  std::uint64_t limit_;
  std::shared_ptr<Quota> parent_;
  std::atomic<std::uint64_t> used_{0};
  /// Of these, what quotas below use.
  std::atomic<std::uint64_t> used_below_{0};
  std::atomic<std::uint64_t> peak_{0};
  /// Guards what follows.
  std::mutex beside_mutex_;
  std::int64_t beside_ = 0;
  std::function<void(std::uint64_t)> told_;
};

} // namespace gpuactors

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
/// the children inside its lease stay below one limit together. Any thread; lock-free, except for bytes that other
/// libraries allocate. The pattern (reserve, try, give back) is that of RMM's limiting_resource_adaptor.
class Quota {
public:
  /// @param holder the name of the holder for error texts, for example "actor trainer".
  /// @param limit_bytes the limit of reserved bytes at any instant.
  Quota(std::string holder, std::uint64_t limit_bytes, std::shared_ptr<Quota> parent = nullptr);

  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;
  ~Quota();

  /// Reserves `bytes`, or fails with `out_of_memory`, naming request, use and limit, and how much of that use belongs
  /// to child quotas. Never exceeds the limit. An attempt that the parent refuses counts here for an instant.
  Result<void> reserve(std::uint64_t bytes) {
    return take(bytes, false);
  }

  /// Returns reserved bytes to the quota.
  void release(std::uint64_t bytes) noexcept {
    give_back(bytes, false);
  }

  /// Reserves bytes for memory that another library allocates (`Reservation`), and reports the new total to the
  /// function of `on_beside`, so that the context can cache less.
  Result<void> reserve_beside(std::uint64_t bytes);
  void release_beside(std::uint64_t bytes) noexcept;

  /// Sets the function that is called with the number of bytes that others may occupy: those that `reserve_beside`
  /// holds, plus the limits of child quotas, which may cache that much. Called on each change, and at once if the total
  /// is above 0. Null removes it. Waits for a call in progress. `told` must not use this quota.
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
  /// @param for_below whether the bytes are those of a child quota.
  [[nodiscard]] Error refusal(std::uint64_t bytes, std::uint64_t used, bool for_below) const;
  Result<void> take(std::uint64_t bytes, bool for_below);
  void give_back(std::uint64_t bytes, bool for_below) noexcept;
  void change_beside(std::int64_t bytes);

  std::string holder_;
  std::uint64_t limit_;
  std::shared_ptr<Quota> parent_;
  std::atomic<std::uint64_t> used_{0};
  /// The part of `used_` that child quotas use.
  std::atomic<std::uint64_t> used_below_{0};
  std::atomic<std::uint64_t> peak_{0};
  /// Guards the members below.
  std::mutex beside_mutex_;
  std::int64_t beside_ = 0;
  std::function<void(std::uint64_t)> told_;
};

} // namespace gpuactors

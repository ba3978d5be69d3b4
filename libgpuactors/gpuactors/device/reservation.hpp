// Reservation: the part of a lease's memory that other libraries allocate themselves.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/quota.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gpuactors {

/// Bytes of a quota for memory that another library allocates: a framework's arena, tensors, a workspace.
///
/// Lifecycle: reserve, then allocate; free, then destroy the reservation. It only counts bytes and, on CUDA, makes the
/// context cache that much less freed memory. The quota refuses a reservation beyond its limit. Nothing stops the
/// library from allocating more than was reserved; that is up to its user. May outlive the context, and be moved to and
/// destroyed on any thread; one thread at a time uses it.
class Reservation {
public:
  /// Creates an empty reservation.
  Reservation() = default;

  /// Reserves `bytes` of `Context::quota()`; any thread.
  /// @returns `out_of_memory`, naming request, use and limit.
  static Result<Reservation> of(std::shared_ptr<Quota> quota, std::uint64_t bytes) {
    GPUACTORS_TRY(quota->reserve_beside(bytes));
    return Reservation{std::move(quota), bytes};
  }

  Reservation(Reservation&& other) noexcept : quota_(std::move(other.quota_)), bytes_(std::exchange(other.bytes_, 0)) {
    // nop
  }

  Reservation& operator=(Reservation&& other) noexcept {
    if (this != &other) {
      give_back();
      quota_ = std::move(other.quota_);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  ~Reservation() {
    give_back();
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_;
  }

private:
  Reservation(std::shared_ptr<Quota> quota, std::uint64_t bytes) : quota_(std::move(quota)), bytes_(bytes) {
    // nop
  }

  void give_back() noexcept {
    if (quota_ != nullptr)
      quota_->release_beside(bytes_);
    quota_ = nullptr;
    bytes_ = 0;
  }

  std::shared_ptr<Quota> quota_;
  std::uint64_t bytes_ = 0;
};

} // namespace gpuactors

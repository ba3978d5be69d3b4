// The atomic ledger of one lease's device memory.
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/quota.hpp>

#include <fmt/format.h>

#include <cassert>

namespace gpuactors {

Quota::Quota(std::string holder, std::uint64_t limit_bytes, std::shared_ptr<Quota> parent)
  : holder_(std::move(holder)), limit_(limit_bytes), parent_(std::move(parent)) {
  // nop
}

Result<void> Quota::reserve(std::uint64_t bytes) {
  // Compare and swap instead of add and roll back, so that other threads never see an attempt that fails here.
  auto used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used)
      return fail(Errc::out_of_memory,
                  fmt::format("{} asked for {} B ({}) of device memory with {} B used of its "
                              "limit of {} B ({})",
                              holder_, bytes, format_bytes(bytes), used, limit_, format_bytes(limit_)));
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ != nullptr) {
    if (auto above = parent_->reserve(bytes); !above) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return above;
    }
  }
  const auto now = used + bytes;
  auto peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    // nop
  }
  return {};
}

void Quota::release(std::uint64_t bytes) noexcept {
  [[maybe_unused]] const auto before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  assert(before >= bytes);
  if (parent_ != nullptr)
    parent_->release(bytes);
}

Result<void> Quota::reserve_beside(std::uint64_t bytes) {
  GPUACTORS_TRY(reserve(bytes));
  change_beside(static_cast<std::int64_t>(bytes));
  return {};
}

void Quota::release_beside(std::uint64_t bytes) noexcept {
  change_beside(-static_cast<std::int64_t>(bytes));
  release(bytes);
}

void Quota::on_beside(std::function<void(std::uint64_t)> told) {
  const std::lock_guard guard{beside_mutex_};
  told_ = std::move(told);
  if (told_ != nullptr && beside_ > 0)
    told_(static_cast<std::uint64_t>(beside_));
}

void Quota::change_beside(std::int64_t bytes) {
  {
    const std::lock_guard guard{beside_mutex_};
    beside_ += bytes;
    if (told_ != nullptr)
      told_(static_cast<std::uint64_t>(beside_));
  }
  if (parent_ != nullptr)
    parent_->change_beside(bytes);
}

} // namespace gpuactors

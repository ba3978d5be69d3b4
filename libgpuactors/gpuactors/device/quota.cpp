// The atomic ledger of one lease's device memory.
#include <gpuactors/base/units.hpp>
#include <gpuactors/device/quota.hpp>

#include <fmt/format.h>

#include <cassert>

namespace gpuactors {

Quota::Quota(std::string holder, std::uint64_t limit_bytes, std::shared_ptr<Quota> parent)
  : holder_(std::move(holder)), limit_(limit_bytes), parent_(std::move(parent)) {
  if (parent_ != nullptr)
    parent_->change_beside(static_cast<std::int64_t>(limit_));
}

Quota::~Quota() {
  if (parent_ != nullptr)
    parent_->change_beside(-static_cast<std::int64_t>(limit_));
}

Error Quota::refusal(std::uint64_t bytes, std::uint64_t used, bool for_below) const {
  const auto below = used_below_.load(std::memory_order_relaxed);
  const auto asked = fmt::format("{} B ({}) of device memory", bytes, format_bytes(bytes));
  return {Errc::out_of_memory,
          fmt::format("{} with {} B used of its limit of {} B ({}){}",
                      for_below ? fmt::format("{} cannot give {} to what runs inside it,", holder_, asked)
                                : fmt::format("{} asked for {}", holder_, asked),
                      used, limit_, format_bytes(limit_),
                      below > 0 ? fmt::format(", {} B of them by what runs inside it", below) : "")};
}

Result<void> Quota::take(std::uint64_t bytes, bool for_below) {
  // Compare and swap instead of add and roll back, so that other threads never see an attempt that fails here.
  auto used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used)
      return fail(refusal(bytes, used, for_below));
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ != nullptr) {
    if (auto above = parent_->take(bytes, true); !above) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return fail(above.error().code(), fmt::format("{}: {}", holder_, above.error().message()));
    }
  }
  if (for_below)
    used_below_.fetch_add(bytes, std::memory_order_relaxed);
  const auto now = used + bytes;
  auto peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    // nop
  }
  return {};
}

void Quota::give_back(std::uint64_t bytes, bool for_below) noexcept {
  [[maybe_unused]] const auto before = used_.fetch_sub(bytes, std::memory_order_relaxed);
  assert(before >= bytes);
  if (for_below)
    used_below_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_ != nullptr)
    parent_->give_back(bytes, true);
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
  const std::lock_guard guard{beside_mutex_};
  beside_ += bytes;
  if (told_ != nullptr)
    told_(static_cast<std::uint64_t>(beside_));
}

} // namespace gpuactors

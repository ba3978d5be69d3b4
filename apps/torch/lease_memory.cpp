#include "lease_memory.hpp"

#include <gpuactors/device/reservation.hpp>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace torchscript {

using gpuactors::Errc;

namespace {

/// The memory that the calling thread's allocations are counted by.
thread_local LeaseMemory* used_here = nullptr;

/// What stands in front of each block.
struct Head {
  /// The memory of head and block.
  at::DataPtr memory;
  /// Empty: counted by nobody.
  gpuactors::Reservation counted;
};

/// Keeps the alignment that libtorch's kernels count on.
constexpr std::size_t head_bytes = 64;
static_assert(sizeof(Head) <= head_bytes);

void free_block(void* block) {
  if (block == nullptr)
    return;
  auto* head = std::launder(reinterpret_cast<Head*>(static_cast<std::byte*>(block) - head_bytes));
  auto last = std::move(*head);
  head->~Head();
  last.memory.clear(); // before it counts no more
}

} // namespace

/// In front of the allocator that libtorch had before.
class LeaseAllocator final : public at::Allocator {
public:
  explicit LeaseAllocator(at::Allocator& behind) : behind_(&behind) {
    // nop
  }

  // libtorch 1 declares the first of the two, and libtorch 2 the second and `copy_data`: hence without "override".
  // NOLINTBEGIN(modernize-use-override)
  at::DataPtr allocate(std::size_t bytes) const {
    return make_block(bytes);
  }

  at::DataPtr allocate(std::size_t bytes) {
    return make_block(bytes);
  }

  void copy_data(void* target, const void* source, std::size_t bytes) const {
    std::memcpy(target, source, bytes);
  }

  at::DeleterFnPtr raw_deleter() const {
    return &free_block;
  }
  // NOLINTEND(modernize-use-override)

private:
  at::DataPtr make_block(std::size_t bytes) const {
    const at::Device cpu{at::DeviceType::CPU};
    if (bytes == 0)
      return {nullptr, nullptr, &free_block, cpu};
    auto* user = used_here;
    if (bytes > std::numeric_limits<std::size_t>::max() / 2)
      refuse(user, {Errc::out_of_memory, fmt::format("a tensor of {} bytes was asked for", bytes)});
    const auto all = bytes + head_bytes;
    gpuactors::Reservation counted;
    if (user != nullptr) {
      auto reserved = gpuactors::Reservation::of(user->quota_, all);
      if (!reserved)
        refuse(user, reserved.error());
      counted = std::move(*reserved);
    }
    auto memory = allocate_behind(user, all);
    auto* place = static_cast<std::byte*>(memory.get());
    new (place) Head{std::move(memory), std::move(counted)};
    auto* block = place + head_bytes;
    return {block, block, &free_block, cpu};
  }

  [[noreturn]] static void refuse(LeaseMemory* user, const gpuactors::Error& error) {
    if (user != nullptr)
      user->refused_ = error;
    C10_THROW_ERROR(OutOfMemoryError, error.message());
  }

  at::DataPtr allocate_behind(LeaseMemory* user, std::size_t bytes) const {
    try {
      return behind_->allocate(bytes);
    } catch (const std::exception&) {
      if (user == nullptr)
        throw;
      user->refused_ = gpuactors::Error{Errc::out_of_memory, fmt::format("this machine has no {} bytes left, which {} "
                                                                         "may have by its lease",
                                                                         bytes, user->quota_->holder())};
      throw;
    }
  }

  at::Allocator* behind_;
};

namespace {

/// Replaces the allocator while the plugin is loaded: libtorch wants no other thread to use it meanwhile. It is never
/// destroyed, because blocks may live until the process ends.
LeaseAllocator* install() {
  auto* ours = new LeaseAllocator{*c10::GetCPUAllocator()};
  c10::SetCPUAllocator(ours, 1); // above the priority of libtorch's own
  return ours;
}

const LeaseAllocator* const installed = install();

} // namespace

LeaseMemory::Use::Use(LeaseMemory& memory) noexcept : before_(std::exchange(used_here, &memory)) {
  memory.refused_.reset();
}

LeaseMemory::Use::~Use() {
  used_here = before_;
}

gpuactors::Result<void> LeaseMemory::check_installed() {
  if (c10::GetCPUAllocator() == installed)
    return {};
  return gpuactors::fail(Errc::unsupported, "another library has replaced libtorch's CPU allocator, so the memory of a "
                                            "lease would not be kept: load gpuactors_torch without it");
}

} // namespace torchscript

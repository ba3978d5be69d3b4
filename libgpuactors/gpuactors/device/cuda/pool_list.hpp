// Who keeps memory of a device that others of the same lease may need.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/error.hpp>
#include <gpuactors/device/detail/patience.hpp>

#include <mutex>
#include <vector>

namespace gpuactors::cuda {

/// Somebody with memory of a device that is not in use.
class Keeper {
public:
  virtual ~Keeper() = default;

  /// Gives it back to the device, as far as the work that used it is done. Waits for no work. Any thread; the primary
  /// context is current.
  /// @returns whether that was all: no more comes back when work is done.
  virtual bool give_back() noexcept = 0;
};

/// The keepers of one device in this process. A quota no longer counts what is freed, so another context of the same
/// lease may take it, but a pool keeps it: the driver then has nothing left although the quotas agree. Any thread.
class PoolList {
public:
  PoolList() = default;
  PoolList(const PoolList&) = delete;
  PoolList& operator=(const PoolList&) = delete;

  void add(Keeper& keeper);

  /// Once it returns nobody asks `keeper` any more. One that is not there is no error.
  void remove(Keeper& keeper) noexcept;

  /// Tries once more to have memory, when all have given back what they have. The primary context is current.
  /// @param attempt returns a `Result`. It is made again and again while memory runs out that others have freed behind
  ///                work, for a second at most: their work may be one that never ends.
  template <class Attempt>
  auto try_again(Attempt attempt) -> decltype(attempt()) {
    constexpr Duration enough = std::chrono::seconds{1};
    for (const auto start = Clock::now();;) {
      const bool was_all = give_back();
      auto outcome = attempt();
      const auto waited = Clock::now() - start;
      if (was_all || outcome || outcome.error().code() != Errc::out_of_memory || waited > enough)
        return outcome;
      gpuactors::detail::sleep_precisely(gpuactors::detail::look_again_after(waited, Duration::zero()));
    }
  }

private:
  bool give_back() noexcept;

  std::mutex mutex_;
  std::vector<Keeper*> keepers_;
};

} // namespace gpuactors::cuda

// Sums of gradients by NCCL, on the stream itself: for members on CUDA devices of their own.
#pragma once

#include "nccl.hpp"

#include <gpuactors/gpuactors.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace train {

/// Puts the sum of all members' gradients in the place of each one's own, step after step. Used on the thread of its
/// member.
///
/// Nothing in it waits for another member: what cannot go on says so, and the member asks again when it is woken.
/// A thread of its own asks NCCL for errors, as NCCL tells them to nobody; nothing here is ever waited for but at the
/// object's own end. A member that dies leaves the others' sums on their streams: `abandon` ends them.
class NcclSum {
public:
  /// Who takes part: `id` is the same for all.
  struct Place {
    std::string id;
    int members = 1;
    int rank = 0;
    /// What a step queues on the stream, at most.
    std::uint64_t operations = 1;
    /// How long NCCL may be at work on the host: for the others to come, say. Then the sum has failed.
    gpuactors::Duration patience = std::chrono::minutes{1};
  };

  /// Becomes part of a group; returns before the others have come. The stream and the gradients must outlive the sum.
  /// @param wake  has the member ask again; any thread, also after the end of the sum.
  /// @returns `invalid_argument` for an id that is none; `unsupported` without NCCL or on other devices; what NCCL
  /// says.
  static gpuactors::Result<std::unique_ptr<NcclSum>> join(gpuactors::Stream& stream, const gpuactors::Tensor& gradients,
                                                          const Place& place, std::function<void()> wake);
  NcclSum(const NcclSum&) = delete;
  NcclSum& operator=(const NcclSum&) = delete;
  /// Gives up what is under way, and waits until NCCL has: for what the stream had before the last sum.
  ~NcclSum();

  /// Begins with the gradients that the stream finds, once `ready` is true. Before that NCCL refuses it, and the
  /// communicator is of no use any more.
  gpuactors::Result<void> begin();

  /// Whether work that is queued on the stream from now on sees the sum of what was begun; true when nothing was.
  /// @returns why the sum will never come.
  gpuactors::Result<bool> ready();

  /// Whether nothing is under way any more, on the stream either, so that it can be waited for without others.
  gpuactors::Result<bool> settled();

  /// Gives up what is under way: the stream gets to its end, with whatever numbers. No step is begun after it. Waits
  /// for nothing.
  void abandon() noexcept;

private:
  /// How far the stream is, for its callbacks.
  struct Landing {
    std::atomic<std::uint64_t> landed{0};
    std::function<void()> wake;
  };

  NcclSum(const Nccl& nccl, gpuactors::Stream& stream, const gpuactors::Tensor& gradients, const Place& place,
          std::function<void()> wake);

  void watch(const std::stop_token& stop);
  // With the mutex.
  gpuactors::Result<bool> asked_for_progress();
  /// Has the watcher look soon for the end of what NCCL is busy with. Returns `busy`.
  bool await_if(bool busy);
  gpuactors::Result<void> ask_to_land();
  void abort() noexcept;

  const Nccl& nccl_;
  gpuactors::Stream& stream_;
  const gpuactors::Tensor& gradients_;
  /// Steps that may be on the stream at once, so that queueing never blocks behind a member that died.
  const std::uint64_t most_under_way_;
  const gpuactors::Duration patience_;
  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();
  /// Steps that were begun, and the last one whose end the stream tells.
  std::uint64_t begun_ = 0;
  std::uint64_t told_ = 0;
  /// NCCL takes one call at a time for a communicator. Guards what follows.
  std::mutex mutex_;
  Nccl::Comm comm_ = nullptr;
  std::optional<gpuactors::Error> failed_;
  /// Somebody was told to wait for NCCL's own work.
  bool awaited_ = false;
  /// Since when NCCL has been at that work.
  gpuactors::TimePoint busy_since_ = gpuactors::Clock::now();
  std::condition_variable_any wake_;
  /// Ends the communicator that was given up.
  std::jthread aborting_;
  std::jthread watcher_;
};

} // namespace train

// Gives up calls whose messages do not arrive.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace serve {

/// Knows the messages that are on their way in: gRPC keeps what has arrived of one, and tells nobody how much that is.
/// Any thread.
class SlowReads {
public:
  using Key = std::uint64_t;
  using GiveUp = std::function<void()>;

  /// @param most_strangers So many messages of strangers may be on their way.
  explicit SlowReads(std::size_t most_strangers);
  ~SlowReads();

  SlowReads(const SlowReads&) = delete;
  SlowReads& operator=(const SlowReads&) = delete;

  /// A message is being read. When it takes longer than `time`, `give_up` is called, unless `end` was called before;
  /// it may still be called while `end` is. Where a stranger's is one too many, the oldest of theirs is given up.
  [[nodiscard]] Key begin(gpuactors::Duration time, bool stranger, GiveUp give_up);
  /// It has been read.
  void end(Key key);

private:
  struct Read {
    gpuactors::TimePoint deadline;
    GiveUp give_up;
  };

  void watch();
  /// With the lock.
  GiveUp take(Key key);

  std::size_t most_strangers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  Key next_ = 1;
  std::map<Key, Read> reads_;
  std::set<std::pair<gpuactors::TimePoint, Key>> by_deadline_;
  std::set<Key> strangers_;
  /// When the thread looks next.
  gpuactors::TimePoint wakes_at_ = gpuactors::never;
  std::thread thread_;
};

} // namespace serve

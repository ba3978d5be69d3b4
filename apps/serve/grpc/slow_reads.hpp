// Gives up calls whose messages do not arrive.
#pragma once

#include <apps/serve/grpc/deadlines.hpp>

#include <cstddef>
#include <mutex>
#include <set>

namespace serve {

/// Knows the messages that are on their way in: gRPC keeps what has arrived of one, and tells nobody how much that is.
/// Any thread.
class SlowReads {
public:
  using Key = Deadlines::Key;
  using GiveUp = Deadlines::Late;

  /// @param most_strangers So many messages of strangers may be on their way.
  explicit SlowReads(std::size_t most_strangers) : most_strangers_(most_strangers) {
    // nop
  }

  /// A message is being read. When it takes longer than `time`, `give_up` is called, unless `end` was called before;
  /// it may still be called while `end` is. Where a stranger's is one too many, the oldest of theirs is given up.
  [[nodiscard]] Key begin(gpuactors::Duration time, bool stranger, GiveUp give_up);
  /// It has been read.
  void end(Key key);

private:
  std::size_t most_strangers_;
  std::mutex mutex_;
  Key next_ = 1;
  std::set<Key> strangers_;
  Deadlines deadlines_;
};

} // namespace serve

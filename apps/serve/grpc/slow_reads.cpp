#include <apps/serve/grpc/slow_reads.hpp>

#include <utility>

namespace serve {

SlowReads::Key SlowReads::begin(gpuactors::Duration time, bool stranger, GiveUp give_up) {
  GiveUp displaced;
  Key key = 0;
  {
    const std::lock_guard lock{mutex_};
    if (stranger && strangers_.size() >= most_strangers_)
      displaced = deadlines_.end(strangers_.extract(strangers_.begin()).value());
    key = next_++;
    if (stranger)
      strangers_.insert(key);
    deadlines_.begin(key, time, [this, key, give_up = std::move(give_up)] {
      {
        const std::lock_guard again{mutex_};
        strangers_.erase(key);
      }
      give_up();
    });
  }
  // None, where it is being given up already.
  if (displaced)
    displaced();
  return key;
}

void SlowReads::end(Key key) {
  const std::lock_guard lock{mutex_};
  strangers_.erase(key);
  deadlines_.end(key);
}

} // namespace serve

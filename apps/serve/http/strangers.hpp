// The connections that have not shown yet that they may be here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace serve {

/// Those of which no request has been accepted, in the order in which they came. Any thread.
class Strangers {
public:
  using Key = std::uint64_t;

  /// @param evict Closes the connection if it is still a stranger.
  [[nodiscard]] Key add(std::function<void()> evict) {
    const std::lock_guard lock{mutex_};
    connections_.emplace(next_, std::move(evict));
    return next_++;
  }

  /// It is none any more, or has gone.
  void remove(Key key) {
    const std::lock_guard lock{mutex_};
    connections_.erase(key);
  }

  /// @returns false when there are none.
  [[nodiscard]] bool evict_oldest() {
    std::function<void()> evict;
    {
      const std::lock_guard lock{mutex_};
      if (connections_.empty())
        return false;
      evict = std::move(connections_.begin()->second);
      connections_.erase(connections_.begin());
    }
    evict();
    return true;
  }

private:
  std::mutex mutex_;
  Key next_ = 0;
  std::map<Key, std::function<void()>> connections_;
};

} // namespace serve

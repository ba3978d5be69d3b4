// Posts: the functions that wait for an actor's thread. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace gpuactors::detail {

/// Any thread, but for what the actor's thread takes.
class Posts {
public:
  /// @param wake tells the actor that a function is ready (0), or the number of one that waits. It only posts.
  explicit Posts(std::function<void(std::uint64_t)> wake) : wake_(std::move(wake)) {
    // nop
  }

  /// @returns false if the actor has ended.
  bool push(Duration wait, std::function<void()> function);

  /// Returns how long the function with this number still waits. Actor's thread.
  [[nodiscard]] Duration wait_of(std::uint64_t number) const;

  /// Takes the next function that is ready, or the one with this number; empty if there is none. Actor's thread.
  std::function<void()> take(std::uint64_t number);

  /// Destroys what has not run, and takes nothing any more.
  void close();

private:
  struct Later {
    TimePoint due;
    std::function<void()> function;
  };

  const std::function<void(std::uint64_t)> wake_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::uint64_t last_ = 0;
  std::deque<std::function<void()>> ready_;
  std::map<std::uint64_t, Later> later_;
};

} // namespace gpuactors::detail

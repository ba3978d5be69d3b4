// What the fake driver knows of its events.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <thread>

namespace gpuactors::fake {

struct Events {
  struct Event {
    /// The green context in which it was made; null: the primary one.
    const void* home = nullptr;
    CUstream recorded_on = nullptr;
    std::thread::id recorded_by;
  };

  std::mutex mutex;
  std::map<CUevent, Event> all;
};

inline Events& events() {
  static auto* one = new Events;
  return *one;
}

/// Where it was last recorded, or null.
inline CUstream stream_of(CUevent event) {
  const std::lock_guard guard{events().mutex};
  const auto found = events().all.find(event);
  return found != events().all.end() ? found->second.recorded_on : nullptr;
}

/// The same if this thread did that: others might look while the stream is captured.
inline CUstream own_stream_of(CUevent event) {
  const std::lock_guard guard{events().mutex};
  const auto found = events().all.find(event);
  return found != events().all.end() && found->second.recorded_by == std::this_thread::get_id()
             ? found->second.recorded_on
             : nullptr;
}

/// The stream ends.
inline void forget_events_of(CUstream stream) {
  const std::lock_guard guard{events().mutex};
  for (auto& [event, known] : events().all)
    if (known.recorded_on == stream)
      known.recorded_on = nullptr;
}

} // namespace gpuactors::fake

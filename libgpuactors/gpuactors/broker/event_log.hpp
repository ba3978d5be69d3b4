// EventLog: the broker's decisions in order, bounded, for whoever wants to see or check them.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/v1/control.pb.h>

#include <deque>
#include <string>

namespace gpuactors {

/// The last `limits::event_log` events. One thread (the broker's).
class EventLog {
public:
  /// Appends an event and numbers it. @returns the entry, to be filled in further.
  v1::Event& add(TimePoint now, std::string kind, std::string name) {
    if (events_.size() >= limits::event_log)
      events_.pop_front();
    auto& event = events_.emplace_back();
    event.set_sequence(++last_);
    event.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
    event.set_kind(std::move(kind));
    event.set_name(std::move(name));
    return event;
  }

  /// All events with a number of at least `first`, oldest first.
  template <class Sink>
  void for_each_from(std::uint64_t first, Sink&& sink) const {
    for (const auto& event : events_)
      if (event.sequence() >= first)
        sink(event);
  }

private:
  std::deque<v1::Event> events_;
  std::uint64_t last_ = 0;
};

} // namespace gpuactors

// EventLog: the broker's decisions in order, bounded, for whoever wants to see or check them.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <deque>
#include <map>
#include <string>

namespace gpuactors {

/// The last `limits::event_log` events, and how many there were of each kind. One thread (the broker's).
class EventLog {
public:
  /// `world` outlives it.
  explicit EventLog(const BrokerWorld& world) : world_(world), started_unix_ns_(world.unix_ns()) {
    // nop
  }

  /// Appends an event and numbers it. @returns the entry, to be filled in further.
  v1::Event& add(std::string kind, std::string name) {
    if (events_.size() >= limits::event_log)
      events_.pop_front();
    auto& event = events_.emplace_back();
    event.set_sequence(++last_);
    event.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(world_.now().time_since_epoch()).count());
    event.set_unix_ns(world_.unix_ns());
    ++counts_[kind];
    event.set_kind(std::move(kind));
    event.set_name(std::move(name));
    return event;
  }

  /// Counts what is no event of its own.
  void count(std::string what) {
    ++counts_[std::move(what)];
  }

  /// How often what has happened: by kinds of events, and by what was given to `count`.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const noexcept {
    return counts_;
  }

  [[nodiscard]] std::int64_t started_unix_ns() const noexcept {
    return started_unix_ns_;
  }

  /// All events with a number of at least `first`, oldest first.
  template <class Sink>
  void for_each_from(std::uint64_t first, Sink&& sink) const {
    for (const auto& event : events_)
      if (event.sequence() >= first)
        sink(event);
  }

private:
  const BrokerWorld& world_;
  std::deque<v1::Event> events_;
  std::uint64_t last_ = 0;
  std::map<std::string, std::uint64_t> counts_;
  std::int64_t started_unix_ns_;
};

} // namespace gpuactors

// EventLog: the broker's latest decisions, in order, for display and for checks.
#pragma once

#include <gpuactors/base/event_kind.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/printable.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <deque>
#include <map>
#include <string>

namespace gpuactors {

/// The last `limits::event_log` events, and how many there were of each kind. The broker's thread only.
class EventLog {
public:
  /// `world` must outlive the log.
  explicit EventLog(const BrokerWorld& world) : world_(world), started_unix_ns_(world.unix_ns()) {
    // nop
  }

  /// Appends and numbers an event. @returns the entry, for the caller to fill in.
  v1::Event& add(EventKind kind, std::string name) {
    if (events_.size() >= limits::event_log)
      events_.pop_front();
    auto& event = events_.emplace_back();
    event.set_sequence(++last_);
    event.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(world_.now().time_since_epoch()).count());
    event.set_unix_ns(world_.unix_ns());
    event.set_kind(std::string{to_string(kind)});
    ++counts_[event.kind()];
    event.set_name(printable(std::move(name)));
    return event;
  }

  /// Counts something that is not logged as an event.
  void count(std::string what) {
    ++counts_[std::move(what)];
  }

  /// Counts by kind of event, and by the argument of `count`.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const noexcept {
    return counts_;
  }

  [[nodiscard]] std::int64_t started_unix_ns() const noexcept {
    return started_unix_ns_;
  }

  /// Passes all events numbered `first` or higher to `sink`, oldest first.
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

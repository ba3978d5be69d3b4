// EventLog: the broker's latest decisions, in order, for display and for checks.
#pragma once

#include <gpuactors/base/event_kind.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/utf8.hpp>
#include <gpuactors/broker/core/printable.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <deque>
#include <map>
#include <string>
#include <string_view>

namespace gpuactors {

/// The last `limits::event_log` events, and how many there were of each kind. The broker's thread only.
class EventLog {
public:
  /// `world` must outlive the log.
  explicit EventLog(const BrokerWorld& world) : world_(world), started_unix_ns_(world.unix_ns()) {
    // nop
  }

  /// Appends and numbers an event.
  /// @param name    the first `2 * limits::name_length` bytes of it are kept.
  /// @param reason  the first `limits::kept_reason_bytes` of it are kept.
  /// @returns the entry, for the caller to fill in the rest.
  v1::Event& add(EventKind kind, std::string_view name, std::string_view reason = {}) {
    if (events_.size() >= limits::event_log)
      events_.pop_front();
    auto& event = events_.emplace_back();
    event.set_sequence(++last_);
    event.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(world_.now().time_since_epoch()).count());
    event.set_unix_ns(world_.unix_ns());
    event.set_kind(std::string{to_string(kind)});
    ++counts_[event.kind()];
    // A name that the cluster gives may have words and a number with it.
    event.set_name(printable(std::string{head_of(name, 2 * limits::name_length)}));
    event.set_reason(std::string{head_of(reason, limits::kept_reason_bytes)});
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

  /// Passes all events numbered `first` or higher to `sink`, oldest first, until it returns false.
  template <class Sink>
  void for_each_from(std::uint64_t first, Sink&& sink) const {
    for (const auto& event : events_)
      if (event.sequence() >= first && !sink(event))
        return;
  }

private:
  const BrokerWorld& world_;
  std::deque<v1::Event> events_;
  std::uint64_t last_ = 0;
  std::map<std::string, std::uint64_t> counts_;
  std::int64_t started_unix_ns_;
};

} // namespace gpuactors

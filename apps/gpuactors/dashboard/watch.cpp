#include "watch.hpp"

#include "view.hpp"

#include <fmt/format.h>

#include <utility>

namespace gpuactors::cli::dashboard {

namespace {

/// How many actors that have ended are asked for.
constexpr std::uint32_t ended_asked = 50;

/// A life of an actor: its counts begin at 0 with each.
std::string life_of(const v1::ActorInfo& actor) {
  return fmt::format("actor {} {} {}", actor.id(), actor.lease().id(), actor.lease().epoch());
}

std::string key_of(const CallRow& row) {
  return fmt::format("{}/{}", row.actor != nullptr ? life_of(*row.actor) : "node " + row.node, row.stats->name());
}

/// What a counter has grown by; one that is smaller than it was began anew.
std::uint64_t grown(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

} // namespace

void EventTail::take(const v1::ClusterState& state) {
  const bool again = started_ != 0 && started_ != state.started_unix_ns();
  started_ = state.started_unix_ns();
  if (again) {
    events_.clear();
    next_ = 1;
    return;
  }
  for (const auto& event : state.events()) {
    if (event.sequence() < next_)
      continue;
    next_ = event.sequence() + 1;
    events_.push_back(event);
    if (events_.size() > longest)
      events_.pop_front();
  }
}

void CallMeter::take(TimePoint now, const v1::ClusterState& state) {
  std::map<std::string, CallCounts> counts;
  ran_.clear();
  all_ = {};
  for (const auto& row : call_rows(state)) {
    const CallCounts present{how_many(took(*row.stats)), row.stats->failed()};
    auto key = key_of(row);
    const auto before = counts_.find(key);
    const bool untold = row.actor != nullptr && untold_.count(life_of(*row.actor)) != 0;
    if (taken_at_ && (before != counts_.end() || !untold)) {
      const auto base = before == counts_.end() ? CallCounts{} : before->second;
      const auto ran = grown(base.ran, present.ran);
      all_.ran += ran;
      all_.failed += grown(base.failed, present.failed);
      ran_.emplace(key, ran);
    }
    counts.emplace(std::move(key), present);
  }
  untold_.clear();
  for (const auto& actor : state.actors())
    if (actor.calls() > 0 && actor.methods().empty())
      untold_.insert(life_of(actor));
  counts_ = std::move(counts);
  seconds_ = taken_at_ ? to_seconds(now - *taken_at_) : 0;
  taken_at_ = now;
}

std::optional<double> CallMeter::rate(const CallRow& row) const {
  const auto found = ran_.find(key_of(row));
  if (found == ran_.end() || seconds_ <= 0)
    return std::nullopt;
  return static_cast<double>(found->second) / seconds_;
}

void Watch::take(const Moment& now, const v1::ClusterState& state) {
  events_.take(state);
  calls_.take(now.steady, state);
  const auto totals = totals_of(state);
  history_.add(now.steady, {.granted_percent = totals.granted_percent(),
                            .waiting = static_cast<double>(state.queue_size()),
                            .seconds = calls_.seconds(),
                            .calls = static_cast<double>(calls_.all().ran),
                            .failed = static_cast<double>(calls_.all().failed)});
}

StateOptions Watch::question() const {
  return {.events_from = events_.next(), .ended = ended_asked};
}

} // namespace gpuactors::cli::dashboard

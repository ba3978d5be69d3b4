#include "watch.hpp"

#include "view.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/gpuactors/incomplete.hpp>

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

/// What has counted: a life of an actor, or a node.
std::string source_of(const CallRow& row) {
  return row.actor != nullptr ? life_of(*row.actor) : "node " + row.node;
}

std::string key_of(const CallRow& row) {
  return fmt::format("{}/{}", source_of(row), row.stats->name());
}

/// Whether a state may have left out counts of calls. It does so from the first ones on that have no room in it.
bool leaves_counts_out(const v1::ClusterState& state) {
  constexpr std::size_t most_of_one =
      limits::call_stats_kept * (2 * limits::name_length + 32 * limits::call_seconds.size());
  std::size_t bytes = 0;
  for (const auto& row : call_rows(state))
    bytes += row.stats->ByteSizeLong();
  return bytes + most_of_one >= limits::call_stats_in_state_bytes;
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

CallMeter::Known CallMeter::known_of(const v1::ClusterState& state) {
  Known known;
  const bool crowded = leaves_counts_out(state);
  for (const auto& node : state.nodes()) {
    known.nodes.insert(node.node().name());
    if (!node.tasks().empty() || !crowded)
      known.whole.insert("node " + node.node().name());
  }
  for (const auto& actor : state.actors()) {
    if (actor.state() == "returning")
      known.returning.insert(actor.id());
    else if (actor.calls() == 0 || !actor.methods().empty())
      known.whole.insert(life_of(actor));
    known.lives.insert(life_of(actor));
  }
  known.all_actors = is_whole(state, "actors");
  return known;
}

bool CallMeter::grew_from_zero(const CallRow& row) const {
  const auto source = source_of(row);
  if (row.actor == nullptr || known_.whole.count(source) != 0)
    return known_.whole.count(source) != 0;
  const bool comes_back = row.actor->state() == "returning" || known_.returning.count(row.actor->id()) != 0
                          || known_.nodes.count(row.node) == 0;
  return !comes_back && known_.all_actors && known_.lives.count(source) == 0;
}

void CallMeter::take(TimePoint now, const v1::ClusterState& state) {
  if (started_ != state.started_unix_ns()) {
    started_ = state.started_unix_ns();
    taken_at_.reset();
    counts_.clear();
  }
  std::map<std::string, CallCounts> counts;
  ran_.clear();
  all_ = {};
  for (const auto& row : call_rows(state)) {
    const CallCounts present{how_many(took(*row.stats)), row.stats->failed()};
    auto key = key_of(row);
    const auto before = counts_.find(key);
    if (taken_at_ && (before != counts_.end() || grew_from_zero(row))) {
      const auto base = before == counts_.end() ? CallCounts{} : before->second;
      const auto ran = grown(base.ran, present.ran);
      all_.ran += ran;
      all_.failed += grown(base.failed, present.failed);
      ran_.emplace(key, ran);
    }
    counts.emplace(std::move(key), present);
  }
  known_ = known_of(state);
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

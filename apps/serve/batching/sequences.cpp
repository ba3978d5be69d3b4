#include "sequences.hpp"

#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <utility>

namespace serve::batching {

using gpuactors::deadline_after;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::TimePoint;

Sequences::~Sequences() {
  for (const auto& [id, sequence] : all_)
    for (const auto& [turn, request] : sequence->turns)
      request->sequence.reset();
}

bool Sequences::expired(const Sequence& sequence, TimePoint now) const {
  return sequence.turns.empty() && deadline_after(sequence.idle_since, limits_.idle) <= now;
}

bool Sequences::open(const Sequence& sequence) {
  if (sequence.moved)
    return false;
  return sequence.turns.empty() ? sequence.begun : !sequence.turns.rbegin()->second->ends;
}

void Sequences::move(Sequence& sequence, std::uint64_t replica) {
  if (sequence.replica != 0 && --counts_[sequence.replica] == 0)
    counts_.erase(sequence.replica);
  sequence.replica = replica;
  if (replica != 0)
    ++counts_[replica];
}

Sequences::All::iterator Sequences::erase(All::iterator it) {
  move(*it->second, 0);
  idle_.erase({it->second->idle_since, it->second->id});
  return all_.erase(it);
}

void Sequences::note_idle(Sequence& sequence, TimePoint now) {
  sequence.idle_since = now;
  idle_.emplace(now, sequence.id);
}

std::size_t Sequences::count_at(std::uint64_t replica) const {
  const auto found = counts_.find(replica);
  return found == counts_.end() ? 0 : found->second;
}

void Sequences::forget_expired(TimePoint now) {
  while (!idle_.empty() && deadline_after(idle_.begin()->first, limits_.idle) <= now)
    erase(all_.find(idle_.begin()->second));
}

Result<void> Sequences::check(const Request& request, std::string_view id, TimePoint now) const {
  const auto seconds = std::chrono::duration<double>{limits_.idle}.count();
  const auto known = all_.find(id);
  const auto* sequence = known == all_.end() || expired(*known->second, now) ? nullptr : known->second.get();
  const auto builds_on = limits_.memory == Memory::state && !request.starts;
  if (builds_on && (sequence == nullptr || !open(*sequence)))
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format(
            "there is no sequence \"{}\": it has not begun, has ended, had no request for {} s, or its state was "
            "lost with a replica; start it anew, by sequence_start",
            id, seconds));
  if (sequence != nullptr) {
    const auto waiting = sequence->turns.size() - (sequence->running != 0 ? 1 : 0);
    if (waiting >= most_waiting_in_sequence)
      return gpuactors::fail(Errc::queue_full, fmt::format("{} requests of the sequence \"{}\" wait, and {} may: they "
                                                           "go one by one",
                                                           waiting, id, most_waiting_in_sequence));
    return {};
  }
  if (all_.size() < limits_.most || known != all_.end())
    return {};
  // One that is idle makes room: a cache at any time, state when it is forgotten.
  const auto makes_room =
      !idle_.empty() && (limits_.memory == Memory::cache || deadline_after(idle_.begin()->first, limits_.idle) <= now);
  if (makes_room)
    return {};
  return gpuactors::fail(Errc::queue_full,
                         fmt::format("{} sequences go on, and {} may: a new one has to wait until another ends, or "
                                     "has had no request for {} s",
                                     all_.size(), limits_.most, seconds));
}

Result<void> Sequences::enter(const RequestPtr& request, std::string_view id, TimePoint now) {
  GPUACTORS_TRY(check(*request, id, now));
  forget_expired(now);
  auto found = all_.find(id);
  if (found == all_.end()) {
    // Of caches, the one goes that nobody has used for longest.
    if (all_.size() >= limits_.most)
      erase(all_.find(idle_.begin()->second));
    auto sequence = std::make_shared<Sequence>();
    sequence->id = id;
    found = all_.emplace(sequence->id, sequence).first;
  }
  auto& sequence = *found->second;
  idle_.erase({sequence.idle_since, sequence.id});
  sequence.moved = false;
  request->turn = ++sequence.last_turn;
  request->sequence = found->second;
  sequence.turns.emplace(request->turn, request);
  return {};
}

bool Sequences::has(std::string_view id, TimePoint now) const {
  const auto found = all_.find(id);
  return found != all_.end() && open(*found->second) && !expired(*found->second, now);
}

void Sequences::end(std::string_view id) {
  const auto found = all_.find(id);
  if (found == all_.end())
    return;
  found->second->moved = true;
  if (found->second->turns.empty())
    erase(found);
}

bool Sequences::is_next(const Request& request) {
  const auto& sequence = *request.sequence;
  return sequence.running == 0 && sequence.turns.begin()->first == request.turn;
}

void Sequences::sent(Request& request, std::uint64_t replica) {
  request.sequence->running = request.turn;
  move(*request.sequence, replica);
}

void Sequences::returned(Request& request) {
  if (request.sequence->running == request.turn)
    request.sequence->running = 0;
}

std::vector<RequestPtr> Sequences::cut(Sequence& sequence, std::uint64_t turn) {
  std::vector<RequestPtr> result;
  for (auto it = sequence.turns.upper_bound(turn); it != sequence.turns.end() && !it->second->starts;) {
    it->second->sequence.reset();
    result.push_back(std::move(it->second));
    it = sequence.turns.erase(it);
  }
  return result;
}

std::vector<RequestPtr> Sequences::leave(Request& request, bool answered, TimePoint now) {
  const auto sequence = std::exchange(request.sequence, nullptr);
  if (sequence == nullptr)
    return {};
  // What was never sent has changed nothing; what failed has left the state as it was, or has not made one.
  const auto ran = sequence->running == request.turn;
  if (ran)
    sequence->running = 0;
  if (answered || (ran && limits_.memory == Memory::cache))
    sequence->begun = !request.ends;
  else if (ran && request.starts)
    sequence->begun = false;
  sequence->turns.erase(request.turn);
  std::vector<RequestPtr> result;
  if (limits_.memory == Memory::state && request.starts && !answered)
    result = cut(*sequence, request.turn);
  if (sequence->turns.empty()) {
    note_idle(*sequence, now);
    if (!open(*sequence))
      erase(all_.find(sequence->id));
  }
  return result;
}

std::vector<RequestPtr> Sequences::spoil(Request& request) {
  request.sequence->begun = false;
  return cut(*request.sequence, request.turn);
}

std::vector<RequestPtr> Sequences::lose(std::uint64_t replica) {
  std::vector<RequestPtr> result;
  for (auto it = all_.begin(); it != all_.end();) {
    auto& sequence = *it->second;
    if (sequence.replica != replica) {
      ++it;
      continue;
    }
    move(sequence, 0);
    sequence.running = 0;
    sequence.begun = false;
    if (limits_.memory == Memory::state)
      for (auto& request : cut(sequence, 0))
        result.push_back(std::move(request));
    it = sequence.turns.empty() ? erase(it) : std::next(it);
  }
  return result;
}

std::map<std::uint64_t, std::size_t> Sequences::by_replica(TimePoint now) {
  forget_expired(now);
  return counts_;
}

} // namespace serve::batching

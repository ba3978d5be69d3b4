// Sequences of a dispatcher: which replica a request may go to, and what fails with a request or a replica.
#include "counting.hpp"
#include "dispatcher.hpp"

#include <apps/serve/cut_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace serve {

using batching::Request;
using batching::RequestPtr;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Error;
using gpuactors::Result;
using gpuactors::TimePoint;

std::vector<Dispatcher::Replica*> Dispatcher::with_room(TimePoint now) {
  // As `least_loaded` would choose, one after the other, but for sequences.
  using Load = std::tuple<bool, std::size_t, std::size_t, std::uint64_t>;
  std::vector<std::pair<Load, Replica*>> loads;
  for (auto& [id, one] : replicas_) {
    auto& replica = one;
    if (!has_room(replica) || is_late(replica, now)
        || (replica.leaving && options_.sequences.memory != batching::Memory::state))
      continue;
    const auto flights = replica.flights.size();
    auto fills = options_.fills && 2 * flights < most_flights();
    if (fills) {
      const auto* first = queue_.first([&](const Request& request) { return may_go(request, replica, now); });
      fills = first == nullptr || first->losses == 0;
    }
    // New sequences go where there are the fewest: all of them may go on at once. But one with any cannot go.
    auto sequences = sequences_.count_at(id);
    if (options_.fills && sequences < few_sequences())
      sequences = 0;
    loads.emplace_back(Load{!fills, fills ? 0 : flights, sequences, id}, &replica);
  }
  std::sort(loads.begin(), loads.end());
  std::vector<Replica*> result;
  for (const auto& [load, replica] : loads)
    result.push_back(replica);
  return result;
}

bool Dispatcher::send_in_sequences(TimePoint now, Actions& actions) {
  for (auto* one : with_room(now)) {
    auto blocked = false;
    const auto goes = [&](const Request& request) {
      if (blocked || !may_go(request, *one, now))
        return false;
      // What may kill replicas does not run beside others of its kind, and nothing overtakes it.
      if (const auto until = request.losses > 0 ? suspected_until() : TimePoint::min(); until > now) {
        ask_again_ = std::min(ask_again_, until);
        blocked = true;
      }
      return !blocked;
    };
    if (begin_batch(*one, goes, now, actions))
      return true;
  }
  return false;
}

std::size_t Dispatcher::few_sequences() const {
  return std::max<std::size_t>(1, (options_.facts.generative ? most_flights() : options_.limits.max_batch) / 2);
}

bool Dispatcher::may_go_anywhere(const Request& request) const {
  if (request.sequence == nullptr)
    return true;
  return batching::Sequences::is_next(request)
         && (options_.sequences.memory == batching::Memory::cache || !replicas_.contains(request.sequence->replica));
}

bool Dispatcher::may_go(const Request& request, const Replica& replica, TimePoint now) const {
  if (request.sequence == nullptr)
    return !replica.leaving;
  if (!batching::Sequences::is_next(request))
    return false;
  const auto at = replicas_.find(request.sequence->replica);
  if (at == replicas_.end())
    return !replica.leaving;
  if (&at->second == &replica)
    return true;
  // A cache is built anew where there is room.
  return options_.sequences.memory == batching::Memory::cache
         && (at->second.leaving || !has_room(at->second) || is_late(at->second, now));
}

Result<void> Dispatcher::admit(const std::shared_ptr<Pending>& pending, TimePoint now) {
  const auto& id = pending->request.sequence.id;
  if (id.empty() || !options_.facts.has_sequences())
    return queue_.admit(pending, now, capacity(now));
  GPUACTORS_TRY(sequences_.check(*pending, id, now));
  GPUACTORS_TRY(queue_.admit(pending, now, capacity(now)));
  return sequences_.enter(pending, id, now); // as it was checked
}

void Dispatcher::leave_sequence(Request& request, bool answered, TimePoint now, Actions& actions) {
  if (request.sequence == nullptr)
    return;
  for (const auto& behind : sequences_.leave(request, answered, now))
    if (queue_.give_up(*behind))
      fail(behind,
           Error{Errc::unavailable,
                 fmt::format(
                     "{}: the request that starts the sequence \"{}\" failed, and this one builds on it; start it "
                     "anew",
                     options_.facts.title, pending_of(behind)->request.sequence.id)},
           reason::other, now, actions);
}

void Dispatcher::spoil_sequence(Request& request, TimePoint now, Actions& actions) {
  for (const auto& behind : batching::Sequences::spoil(request))
    if (queue_.give_up(*behind))
      fail(behind,
           Error{Errc::unavailable,
                 fmt::format("{}: an answer in the sequence \"{}\" was larger than a message, and this request builds "
                             "on it; start it anew",
                             options_.facts.title, pending_of(behind)->request.sequence.id)},
           reason::other, now, actions);
}

void Dispatcher::lose_sequences(std::uint64_t replica, const Error& error, TimePoint now, Actions& actions) {
  for (const auto& request : sequences_.lose(replica))
    if (queue_.give_up(*request))
      fail(request,
           Error{Errc::unavailable,
                 fmt::format("{}: the state of the sequence \"{}\" was lost with its replica; start it anew: {}",
                             options_.facts.title, pending_of(request)->request.sequence.id, to_string(error))},
           reason::backend, now, actions);
}

bool Dispatcher::has_state(std::string_view sequence, TimePoint now) const {
  const auto taken = !closing_ || sequences_go_on_;
  return taken && options_.sequences.memory == batching::Memory::state && !sequence.empty()
         && sequences_.has(sequence, now);
}

bool Dispatcher::continues(std::string_view sequence) const {
  const std::lock_guard lock{mutex_};
  return has_state(sequence, Clock::now());
}

bool Dispatcher::has_sequence(std::string_view sequence) const {
  const std::lock_guard lock{mutex_};
  return sequences_.has(sequence, Clock::now());
}

bool Dispatcher::is_drained(TimePoint now) {
  if (queue_.waiting() + queue_.running() > 0)
    return false;
  sequences_.forget_expired(now);
  return !sequences_go_on_ || sequences_.size() == 0;
}

void Dispatcher::end_sequence(std::string_view sequence) {
  const std::lock_guard lock{mutex_};
  sequences_.end(sequence);
  drained_.notify_all();
}

void Dispatcher::drop_sequences() {
  const std::lock_guard lock{mutex_};
  sequences_go_on_ = false;
  sequences_dropped_ = true;
  drained_.notify_all();
}

} // namespace serve

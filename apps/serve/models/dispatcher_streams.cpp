// Streams of a dispatcher of a generative model: to replicas, item by item back, and to others when a replica is lost.
#include "counting.hpp"
#include "dispatcher.hpp"
#include "generation_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace serve {

using batching::RequestPtr;
using gpuactors::Clock;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Error;
using gpuactors::never;
using gpuactors::TimePoint;

namespace {

/// After so many lost replicas a request is failed: it may be what kills them, and others run beside it.
constexpr int losses_of_streams = 3;

/// For so long those that were lost with it wait for its first item.
constexpr std::chrono::seconds suspicion{10};

/// What a client is told of an actor's error.
Errc code_for_client(Errc code) {
  const auto passes = code == Errc::invalid_argument || code == Errc::queue_full || code == Errc::deadline_exceeded;
  return passes ? code : Errc::task_failed;
}

/// Whose fault it is, for the counters.
const char* reason_of(Errc code, bool has_begun) {
  if (code == Errc::queue_full) // its items were not read, or there was no room for it
    return has_begun ? reason::cancelled : reason::rejected;
  return code == Errc::invalid_argument ? reason::other : reason::backend;
}

} // namespace

bool ends_replica(Errc code) noexcept {
  return code == Errc::unavailable || code == Errc::not_begun || code == Errc::cancelled || code == Errc::lease_expired
         || code == Errc::stale_epoch || gpuactors::is_loss(code);
}

TimePoint Dispatcher::suspected_until() const {
  // Requests that were lost with a replica go one by one until they have an item: only the one that kills replicas is
  // there each time, and fails.
  auto until = TimePoint::min();
  if (!options_.facts.generative)
    return until;
  for (const auto& [id, replica] : replicas_)
    for (const auto& [number, flight] : replica.flights)
      for (const auto& member : flight.members)
        if (const auto pending = pending_of(member); pending->losses > 0 && pending->delivered == 0)
          until = std::max(until, pending->sent + suspicion);
  return until;
}

void Dispatcher::launch_stream(const Launch& launch) {
  const auto pending = pending_of(launch.members.front());
  const auto generation = pending->generation.lock();
  if (generation == nullptr)
    return cancel(*pending);
  const auto left =
      pending->deadline == never ? Duration::max() : std::max(pending->deadline - Clock::now(), Duration::zero());
  const auto begin = [&] {
    const gpuactors::TraceScope scope{launch.trace};
    return (*launch.stream)(message_of(pending->request, options_.facts), left);
  };
  generation->begin(begin(), launch.flight);
}

void Dispatcher::leave_replica(Pending& pending, TimePoint now) {
  if (pending.flight == 0)
    return;
  const auto replica = replicas_.find(pending.replica);
  if (replica != replicas_.end() && replica->second.flights.erase(pending.flight) > 0
      && replica->second.flights.empty())
    replica->second.idle_since = now;
  pending.flight = 0;
}

bool Dispatcher::delivers(Pending& pending, std::uint64_t flight) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    if (pending.flight != flight)
      return false;
    ++items_;
    if (pending.delivered++ > 0)
      return true;
    const auto now = Clock::now();
    latencies_.first_item.add(now - pending.arrived);
    if (pending.losses > 0) {
      pump(now, actions);
      wake_timer();
    }
  }
  act(std::move(actions));
  return true;
}

bool Dispatcher::stream_ended(const std::shared_ptr<Pending>& pending, std::uint64_t flight) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    if (pending->flight != flight || !queue_.settle(*pending))
      return false;
    const auto now = Clock::now();
    leave_replica(*pending, now);
    leave_sequence(*pending, true, now, actions);
    const auto ran = now - pending->sent;
    ++statistics_.execution_count;
    ++statistics_.inference_count;
    statistics_.last_inference_ms = milliseconds_since_epoch();
    count(statistics_.batches[1], ran);
    count(statistics_.success, now - pending->arrived);
    count(statistics_.queue, pending->sent - pending->arrived);
    count(statistics_.compute_infer, ran);
    latencies_.request.add(now - pending->arrived);
    latencies_.queue.add(pending->sent - pending->arrived);
    latencies_.infer.add(ran);
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
  return true;
}

void Dispatcher::stream_failed(const std::shared_ptr<Pending>& pending, std::uint64_t flight, const Error& error) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    if (pending->flight != flight)
      return;
    const auto now = Clock::now();
    // The timer is about to say so.
    if (error.code() == Errc::deadline_exceeded && now >= pending->deadline)
      return;
    const auto replica = replicas_.find(pending->replica);
    if (replica != replicas_.end() && ends_replica(error.code()))
      lose(replica->second, error, now, actions, flight);
    else if (queue_.give_up(*pending))
      fail(pending,
           Error{code_for_client(error.code()),
                 fmt::format("{} could not answer: {}", options_.facts.title, to_string(error))},
           reason_of(error.code(), pending->delivered > 0), now, actions);
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::lose_stream(const RequestPtr& request, const Error& error, bool died, TimePoint now,
                             Actions& actions) {
  const auto pending = pending_of(request);
  pending->flight = 0;
  if (pending->delivered == 0 && (!died || ++request->losses < losses_of_streams)) {
    put_back(request);
    return;
  }
  if (!queue_.give_up(*request))
    return;
  if (pending->delivered > 0)
    fail(request,
         Error{Errc::unavailable, fmt::format("{}: the replica was lost after {} items of the answer; ask again: {}",
                                              options_.facts.title, pending->delivered, to_string(error))},
         reason::backend, now, actions);
  else
    fail(request,
         Error{Errc::worker_died, fmt::format("{}: {} replicas were lost with this request: {}", options_.facts.title,
                                              request->losses, to_string(error))},
         reason::backend, now, actions);
}

} // namespace serve

#include "dispatcher.hpp"

#include "counting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
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

/// How often a version that ends looks for sequences that have been idle for too long.
constexpr std::chrono::milliseconds look_for_idle{100};

Error withdrawn() {
  return Error{Errc::cancelled, "the client withdrew the request"};
}

} // namespace

// -- life -----------------------------------------------------------------------------------------

Dispatcher::Dispatcher(DispatcherOptions options, std::function<void()> replicas_changed)
  : options_(std::move(options)), replicas_changed_(std::move(replicas_changed)), queue_(options_.limits, times_),
    sequences_(options_.sequences), absence_(options_.replica_wait) {
  statistics_.name = options_.facts.name;
  statistics_.version = options_.facts.version;
}

gpuactors::Result<std::shared_ptr<Dispatcher>> Dispatcher::start(DispatcherOptions options,
                                                                 std::function<void()> replicas_changed) {
  std::shared_ptr<Dispatcher> dispatcher{new Dispatcher{std::move(options), std::move(replicas_changed)}};
  try {
    dispatcher->timer_ = std::thread{[self = dispatcher.get()] { self->run_timer(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(Errc::unavailable, fmt::format("a model has no thread: {}", error.what()));
  }
  return dispatcher;
}

Dispatcher::~Dispatcher() {
  close(TimePoint{});
}

void Dispatcher::close(TimePoint until, bool sequences_end) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    closing_ = true;
    sequences_go_on_ = sequences_end && !sequences_dropped_ && options_.facts.has_sequences()
                       && options_.sequences.memory == batching::Memory::state;
    pump(Clock::now(), actions); // batches that were held back to grow
  }
  act(std::exchange(actions, {}));
  {
    std::unique_lock lock{mutex_};
    // Nothing tells when a sequence has been idle for long enough.
    while (!is_drained(Clock::now()) && Clock::now() < until)
      if (const auto wake = sequences_go_on_ ? std::min(until, Clock::now() + look_for_idle) : until; wake == never)
        drained_.wait(lock);
      else
        drained_.wait_until(lock, wake);
    sequences_go_on_ = false;
    const auto now = Clock::now();
    for (const auto& request : queue_.take_all())
      fail(request,
           Error{Errc::unavailable,
                 fmt::format("{} was taken out of service before it could answer", options_.facts.title)},
           reason::other, now, actions);
    stopping_ = true;
    timer_wake_.notify_all();
  }
  act(std::move(actions));
  const std::lock_guard lock{join_mutex_};
  if (timer_.joinable())
    timer_.join();
}

void Dispatcher::run_timer() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    timer_until_ = wakes_at();
    if (timer_until_ == never)
      timer_wake_.wait(lock);
    else
      timer_wake_.wait_until(lock, timer_until_);
    if (stopping_)
      return;
    const auto now = Clock::now();
    Actions actions;
    const auto expired = queue_.expire(now);
    for (const auto& request : expired) {
      leave_sequence(*request, pending_of(request)->delivered > 0, now, actions);
      fail(request, overdue(*request, now), reason::rejected, now, actions);
    }
    // A request that was running in a generative model has made room for another, and one of a sequence for its next.
    if (ask_again_ <= now || (absence_.due() <= now && is_hopeless(now))
        || ((options_.facts.generative || options_.facts.has_sequences()) && !expired.empty()))
      pump(now, actions);
    note_drained();
    lock.unlock();
    act(std::move(actions));
    lock.lock();
  }
}

TimePoint Dispatcher::wakes_at() const {
  return std::min({queue_.next_due(), ask_again_, absence_.due()});
}

void Dispatcher::wake_timer() {
  if (wakes_at() < timer_until_)
    timer_wake_.notify_one();
}

void Dispatcher::note_drained() {
  if (closing_ && queue_.waiting() + queue_.running() == 0)
    drained_.notify_all();
}

// -- requests -------------------------------------------------------------------------------------

bool Dispatcher::submit(const std::shared_ptr<Pending>& pending) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto now = Clock::now();
    if (closing_ && (pending->starts || !has_state(pending->request.sequence.id, now)))
      return false;
    if (is_refused(*pending, now)) {
      ++refused_without_replica_;
      fail(pending, cannot_serve(), reason::backend, now, actions);
      // This may be the first to find that those who wait do so in vain: the timer then has nothing to tell them.
      if (queue_.waiting() > 0)
        pump(now, actions);
    } else if (const auto admitted = admit(pending, now); !admitted) {
      fail(pending,
           Error{admitted.error().code(), fmt::format("{}: {}", options_.facts.title, admitted.error().message())},
           reason::rejected, now, actions);
    } else {
      pending->admitted = true;
      begin_wait(*pending, pending->arrived);
      pump(now, actions);
    }
    wake_timer();
  }
  act(std::move(actions));
  return true;
}

void Dispatcher::cancel(Pending& pending) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    if (!queue_.cancel(pending))
      return;
    const auto now = Clock::now();
    fail_wait(pending, withdrawn(), now);
    ++statistics_.failures[reason::cancelled];
    count(statistics_.fail, now - pending.arrived);
    // Who has read some of a stream, and stops it, goes on from there.
    leave_sequence(pending, pending.delivered > 0, now, actions);
    if (options_.facts.generative || options_.facts.has_sequences()) {
      leave_replica(pending, now);
      pump(now, actions);
      wake_timer();
    }
    note_drained();
  }
  std::exchange(pending.done, nullptr)(gpuactors::fail(withdrawn()));
  act(std::move(actions));
}

void Dispatcher::fail(const RequestPtr& request, Error error, const char* reason, TimePoint now, Actions& actions) {
  ++statistics_.failures[reason];
  count(statistics_.fail, now - request->arrived);
  fail_wait(*pending_of(request), error, now);
  leave_replica(*pending_of(request), now);
  leave_sequence(*request, false, now, actions);
  actions.answers.emplace_back(pending_of(request), gpuactors::fail(std::move(error)));
}

batching::Capacity Dispatcher::capacity(TimePoint now) const {
  batching::Capacity result;
  result.free_at = never;
  for (const auto& [id, replica] : replicas_) {
    if (replica.leaving)
      continue;
    ++result.replicas;
    const auto free_at = begins_at(replica, now);
    if (free_at < result.free_at || result.share == gpuactors::Share{}) {
      result.free_at = free_at;
      result.share = replica.facts.share;
    }
  }
  return result;
}

// -- replicas -------------------------------------------------------------------------------------

void Dispatcher::lose(std::uint64_t id, const Error& why) {
  part_with(id, why, true);
}

void Dispatcher::take_out(std::uint64_t id, const Error& why) {
  part_with(id, why, false);
}

void Dispatcher::part_with(std::uint64_t id, const Error& why, bool died) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto replica = replicas_.find(id);
    if (replica == replicas_.end())
      return;
    const auto now = Clock::now();
    if (died)
      lose(replica->second, why, now, actions);
    else
      empty(replica->second, why, false, now, actions);
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::add(ReplicaFacts facts, RunBatch run) {
  add(std::move(facts), std::make_shared<const RunBatch>(std::move(run)), nullptr);
}

void Dispatcher::add_generative(ReplicaFacts facts, RunStream run) {
  add(std::move(facts), nullptr, std::make_shared<const RunStream>(std::move(run)));
}

void Dispatcher::add(ReplicaFacts facts, std::shared_ptr<const RunBatch> run, std::shared_ptr<const RunStream> stream) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto now = Clock::now();
    const auto id = facts.id;
    replicas_.emplace(id, Replica{std::move(facts), std::move(run), std::move(stream), {}, now, now});
    absence_.end();
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::retire(std::uint64_t id) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto replica = replicas_.find(id);
    if (replica == replicas_.end())
      return;
    replica->second.leaving = true;
    note_gone("the last one ends");
    pump(Clock::now(), actions);
    wake_timer();
  }
  act(std::move(actions));
}

bool Dispatcher::remove_idle(std::uint64_t id) {
  const std::lock_guard lock{mutex_};
  const auto replica = replicas_.find(id);
  if (replica == replicas_.end() || !replica->second.flights.empty())
    return false;
  // What it remembers of sequences is lost with it. Where that is a cache, those go on at others.
  const bool keeps = options_.facts.sequences == wire::SEQUENCE_MEMORY_STATE || !replica->second.leaving;
  if (keeps && sequences_.by_replica(Clock::now()).contains(id))
    return false;
  static_cast<void>(sequences_.lose(id)); // none that would have to fail
  const auto served = !replica->second.leaving;
  replicas_.erase(replica);
  if (served)
    note_gone("the last one has ended");
  return true;
}

std::vector<LostReplica> Dispatcher::take_lost() {
  const std::lock_guard lock{mutex_};
  return std::exchange(lost_, {});
}

void Dispatcher::set_memory(std::uint64_t id, std::uint64_t used_bytes) {
  const std::lock_guard lock{mutex_};
  if (const auto replica = replicas_.find(id); replica != replicas_.end())
    replica->second.facts.memory_used_bytes = used_bytes;
}

void Dispatcher::learn(gpuactors::Share share, std::uint64_t rows, Duration took) {
  const std::lock_guard lock{mutex_};
  times_.add(share, rows, took);
}

bool Dispatcher::knows(gpuactors::Share share, std::uint64_t rows) const {
  const std::lock_guard lock{mutex_};
  return times_.measured(share, rows);
}

batching::ScalingLook Dispatcher::look() {
  const std::lock_guard lock{mutex_};
  const auto now = Clock::now();
  const auto sequences = sequences_.by_replica(now);
  batching::ScalingLook result;
  result.waiting = queue_.waiting();
  if (options_.facts.has_sequences()) {
    result.waiting = queue_.count([this](const auto& request) { return may_go_anywhere(request); });
    result.bound = queue_.waiting() - result.waiting;
  }
  result.refused = queue_.counts().refused_busy;
  for (const auto& [id, replica] : replicas_)
    if (!replica.leaving)
      result.replicas.push_back({id, !replica.flights.empty(), sequences.contains(id) ? now : replica.idle_since});
  return result;
}

std::size_t Dispatcher::replicas() const {
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [](const auto& item) { return !item.second.leaving; }));
}

DispatcherSnapshot Dispatcher::snapshot() const {
  const std::lock_guard lock{mutex_};
  DispatcherSnapshot result{statistics_,
                            queue_.counts(),
                            {},
                            lost_count_,
                            failed_starts_,
                            options_.wanted_replicas,
                            refused_without_replica_,
                            options_.limits.max_batch,
                            latencies_,
                            options_.facts.generative,
                            queue_.running(),
                            items_,
                            std::nullopt};
  if (options_.facts.has_sequences())
    result.sequences = sequences_.size();
  result.statistics.pending = queue_.waiting();
  for (const auto& [id, replica] : replicas_)
    if (!replica.leaving)
      result.replicas.push_back(replica.facts);
  return result;
}

} // namespace serve

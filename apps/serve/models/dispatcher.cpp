#include "dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace serve {

using batching::Request;
using batching::RequestPtr;
using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Duration;
using gpuactors::Errc;
using gpuactors::Error;
using gpuactors::never;
using gpuactors::Result;
using gpuactors::TimePoint;

namespace {

/// After so many lost replicas a request is suspected of killing them and goes alone; after so many it is failed.
constexpr int losses_until_alone = 2;
constexpr int losses_until_failed = 5;

// Triton's reasons for failures, as in its metrics.
constexpr auto rejected = "REJECTED";
constexpr auto cancelled_by_client = "CANCELED";
constexpr auto failed_in_model = "BACKEND";
constexpr auto other_reason = "OTHER";

/// Whether an error says that the replica is gone, rather than that it could not infer this batch.
bool is_loss(Errc code) {
  switch (code) {
  case Errc::unavailable:
  case Errc::lease_expired:
  case Errc::lease_revoked:
  case Errc::stale_epoch:
  case Errc::cancelled:
  case Errc::deadline_exceeded: // of the call: it is stuck
  case Errc::actor_died:
  case Errc::context_lost:
  case Errc::device_lost:
  case Errc::worker_died:
    return true;
  default:
    return false;
  }
}

std::uint64_t nanoseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count(), 0));
}

void count(Timed& timed, std::uint64_t time) {
  ++timed.count;
  timed.nanoseconds += time;
}

std::shared_ptr<Pending> pending_of(const RequestPtr& request) {
  return std::static_pointer_cast<Pending>(request);
}

std::uint64_t milliseconds_since_epoch() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

} // namespace

// -- life -----------------------------------------------------------------------------------------

Dispatcher::Dispatcher(DispatcherOptions options, std::function<void()> replicas_changed)
  : options_(std::move(options)), replicas_changed_(std::move(replicas_changed)), queue_(options_.limits, times_) {
  statistics_.name = options_.facts.name;
  statistics_.version = options_.facts.version;
}

std::shared_ptr<Dispatcher> Dispatcher::start(DispatcherOptions options, std::function<void()> replicas_changed) {
  std::shared_ptr<Dispatcher> dispatcher{new Dispatcher{std::move(options), std::move(replicas_changed)}};
  dispatcher->timer_ = std::thread{[self = dispatcher.get()] { self->run_timer(); }};
  return dispatcher;
}

Dispatcher::~Dispatcher() {
  close(TimePoint{});
}

void Dispatcher::close(TimePoint until) {
  Actions actions;
  {
    std::unique_lock lock{mutex_};
    closing_ = true;
    const auto empty = [this] { return queue_.waiting() + queue_.running() == 0; };
    if (until == never)
      drained_.wait(lock, empty);
    else
      drained_.wait_until(lock, until, empty);
    const auto now = Clock::now();
    for (const auto& request : queue_.take_all())
      fail(request,
           Error{Errc::unavailable,
                 fmt::format("{} was taken out of service before it could answer", options_.facts.title)},
           other_reason, now, actions);
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
    timer_until_ = std::min(queue_.next_due(), ask_again_);
    if (timer_until_ == never)
      timer_wake_.wait(lock);
    else
      timer_wake_.wait_until(lock, timer_until_);
    if (stopping_)
      return;
    const auto now = Clock::now();
    Actions actions;
    for (const auto& request : queue_.expire(now))
      fail(request,
           Error{Errc::deadline_exceeded,
                 fmt::format("{} did not answer within the timeout of {:.3f} ms", options_.facts.title,
                             std::chrono::duration<double, std::milli>{request->deadline - request->arrived}.count())},
           rejected, now, actions);
    if (ask_again_ <= now)
      pump(now, actions);
    note_drained();
    lock.unlock();
    act(std::move(actions));
    lock.lock();
  }
}

void Dispatcher::wake_timer() {
  if (std::min(queue_.next_due(), ask_again_) < timer_until_)
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
    if (closing_)
      return false;
    const auto now = Clock::now();
    if (auto admitted = queue_.admit(pending, now, capacity(now)); !admitted)
      fail(pending,
           Error{admitted.error().code(), fmt::format("{}: {}", options_.facts.title, admitted.error().message())},
           rejected, now, actions);
    else
      pump(now, actions);
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
    ++statistics_.failures[cancelled_by_client];
    count(statistics_.fail, nanoseconds(Clock::now() - pending.arrived));
    note_drained();
  }
  std::exchange(pending.done, nullptr)(gpuactors::fail(Errc::cancelled, "the client withdrew the request"));
}

void Dispatcher::fail(const RequestPtr& request, Error error, const char* reason, TimePoint now, Actions& actions) {
  ++statistics_.failures[reason];
  count(statistics_.fail, nanoseconds(now - request->arrived));
  actions.answers.emplace_back(pending_of(request), gpuactors::fail(std::move(error)));
}

batching::Capacity Dispatcher::capacity(TimePoint now) const {
  batching::Capacity result;
  result.replicas = replicas_.size();
  result.free_at = never;
  for (const auto& [id, replica] : replicas_) {
    const auto free_at = replica.flights.empty() ? now : std::max(now, replica.free_at);
    if (free_at < result.free_at || result.share == gpuactors::Share{}) {
      result.free_at = free_at;
      result.share = replica.facts.share;
    }
  }
  return result;
}

// -- batches --------------------------------------------------------------------------------------

Dispatcher::Replica* Dispatcher::least_loaded() {
  // Among equals the oldest, so that those that are not needed stay idle and can go.
  Replica* result = nullptr;
  for (auto& [id, replica] : replicas_)
    if (replica.flights.size() <= options_.ahead
        && (result == nullptr || replica.flights.size() < result->flights.size()))
      result = &replica;
  return result;
}

void Dispatcher::pump(TimePoint now, Actions& actions) {
  ask_again_ = never;
  while (queue_.waiting() > 0) {
    auto* replica = least_loaded();
    if (replica == nullptr)
      return;
    const auto start = replica->flights.empty() ? now : std::max(now, replica->free_at);
    auto next = queue_.next(start, replica->facts.share);
    for (const auto& request : next.late)
      fail(request,
           Error{Errc::deadline_exceeded,
                 fmt::format("{} cannot answer within the timeout any more", options_.facts.title)},
           rejected, now, actions);
    if (next.batch.empty()) {
      ask_again_ = next.ask_again;
      return;
    }
    for (const auto& request : next.batch)
      pending_of(request)->sent = now;
    replica->free_at = deadline_after(start, times_.estimate(replica->facts.share, next.rows));
    const auto number = ++last_flight_;
    actions.launches.push_back({replica->run, replica->facts.id, number, next.rows, next.batch});
    replica->flights.emplace(number, Flight{std::move(next.batch), next.rows, start});
  }
}

void Dispatcher::act(Actions actions) {
  for (const auto& one : actions.launches)
    launch(one);
  for (auto& [pending, result] : actions.answers)
    std::exchange(pending->done, nullptr)(std::move(result));
  if (actions.replicas_changed)
    replicas_changed_();
}

void Dispatcher::launch(const Launch& launch) {
  wire::Batch batch;
  batch.set_rows(static_cast<std::int64_t>(launch.rows));
  auto& bytes = *batch.mutable_x();
  bytes.reserve(launch.rows * options_.facts.row_in_bytes);
  for (const auto& member : launch.members) {
    const auto view = static_cast<const Pending&>(*member).request.inputs.front().data.view();
    bytes.append(reinterpret_cast<const char*>(view.data()), view.size());
  }
  (*launch.run)(std::move(batch), [weak = weak_from_this(), replica = launch.replica,
                                   flight = launch.flight](Result<wire::BatchReply> reply) {
    if (const auto self = weak.lock())
      self->landed(replica, flight, std::move(reply));
  });
}

void Dispatcher::landed(std::uint64_t id, std::uint64_t number, Result<wire::BatchReply> reply) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto replica = replicas_.find(id);
    if (replica == replicas_.end())
      return; // it was lost, and its batch went elsewhere
    const auto found = replica->second.flights.find(number);
    if (found == replica->second.flights.end())
      return;
    const auto now = Clock::now();
    if (!reply && is_loss(reply.error().code())) {
      lose(replica->second, reply.error(), now, actions);
    } else {
      const auto flight = std::move(found->second);
      replica->second.flights.erase(found);
      if (replica->second.flights.empty())
        replica->second.idle_since = replica->second.free_at = now;
      // A batch that waited behind this one begins now, whatever the table said.
      for (auto& [other, waiting] : replica->second.flights)
        waiting.start = now;
      if (reply) {
        times_.add(replica->second.facts.share, flight.rows, now - flight.start);
        answer_batch(flight, std::move(*reply), now, actions);
      } else {
        fail_batch(flight, reply.error(), now, actions);
      }
    }
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::answer_batch(const Flight& flight, wire::BatchReply reply, TimePoint now, Actions& actions) {
  const auto& facts = options_.facts;
  if (reply.y().size() != flight.rows * facts.row_out_bytes)
    return fail_batch(flight,
                      Error{Errc::internal, fmt::format("{} answered {} bytes for {} rows of {} bytes", facts.title,
                                                        reply.y().size(), flight.rows, facts.row_out_bytes)},
                      now, actions);
  ++statistics_.execution_count;
  statistics_.inference_count += flight.rows;
  statistics_.last_inference_ms = milliseconds_since_epoch();
  count(statistics_.batches[flight.rows], static_cast<std::uint64_t>(reply.infer_ns()));
  const auto shared = std::make_shared<const wire::BatchReply>(std::move(reply));
  const auto bytes = std::as_bytes(std::span{shared->y().data(), shared->y().size()});
  std::size_t offset = 0;
  for (const auto& member : flight.members) {
    const auto size = member->rows * facts.row_out_bytes;
    const auto own = bytes.subspan(offset, size);
    offset += size;
    if (!queue_.settle(*member))
      continue; // answered before, by its timeout or its client
    const auto pending = pending_of(member);
    count(statistics_.success, nanoseconds(now - pending->arrived));
    count(statistics_.queue, nanoseconds(pending->sent - pending->arrived));
    count(statistics_.compute_input, static_cast<std::uint64_t>(shared->input_ns()));
    count(statistics_.compute_infer, static_cast<std::uint64_t>(shared->infer_ns()));
    count(statistics_.compute_output, static_cast<std::uint64_t>(shared->output_ns()));
    InferReply answer{facts.name, facts.version, pending->request.id, {}};
    answer.outputs.push_back(
        {output_name, facts.type, {static_cast<std::int64_t>(member->rows), facts.outputs}, Bytes{shared, own}});
    actions.answers.emplace_back(pending, std::move(answer));
  }
}

void Dispatcher::fail_batch(const Flight& flight, const Error& error, TimePoint now, Actions& actions) {
  for (const auto& member : flight.members)
    if (queue_.give_up(*member))
      fail(member,
           Error{Errc::task_failed, fmt::format("{} could not infer: {}", options_.facts.title, to_string(error))},
           failed_in_model, now, actions);
}

// -- replicas -------------------------------------------------------------------------------------

void Dispatcher::lose(Replica& replica, const Error& error, TimePoint now, Actions& actions) {
  const auto id = replica.facts.id;
  const auto flights = std::move(replica.flights);
  replicas_.erase(id);
  lost_.push_back(id);
  ++lost_count_;
  actions.replicas_changed = true;
  for (const auto& [number, flight] : flights)
    for (const auto& member : flight.members) {
      if (++member->losses >= losses_until_failed) {
        if (queue_.give_up(*member))
          fail(member,
               Error{Errc::worker_died, fmt::format("{}: {} replicas were lost with this request: {}",
                                                    options_.facts.title, member->losses, to_string(error))},
               failed_in_model, now, actions);
        continue;
      }
      member->alone = member->alone || member->losses >= losses_until_alone;
      queue_.put_back(member);
    }
}

void Dispatcher::lose(std::uint64_t id) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto replica = replicas_.find(id);
    if (replica == replicas_.end())
      return;
    const auto now = Clock::now();
    lose(replica->second, Error{Errc::actor_died, "the replica has ended"}, now, actions);
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::add(ReplicaFacts facts, RunBatch run) {
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto now = Clock::now();
    const auto id = facts.id;
    replicas_.emplace(id, Replica{std::move(facts), std::make_shared<const RunBatch>(std::move(run)), {}, now, now});
    pump(now, actions);
    wake_timer();
  }
  act(std::move(actions));
}

bool Dispatcher::remove_idle(std::uint64_t id) {
  const std::lock_guard lock{mutex_};
  const auto replica = replicas_.find(id);
  if (replica == replicas_.end() || !replica->second.flights.empty())
    return false;
  replicas_.erase(replica);
  return true;
}

std::vector<std::uint64_t> Dispatcher::take_lost() {
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

batching::ScalingLook Dispatcher::look() const {
  const std::lock_guard lock{mutex_};
  batching::ScalingLook result;
  result.waiting = queue_.waiting();
  for (const auto& [id, replica] : replicas_)
    result.replicas.push_back({id, !replica.flights.empty(), replica.idle_since});
  return result;
}

std::size_t Dispatcher::replicas() const {
  const std::lock_guard lock{mutex_};
  return replicas_.size();
}

DispatcherSnapshot Dispatcher::snapshot() const {
  const std::lock_guard lock{mutex_};
  DispatcherSnapshot result{statistics_, queue_.counts(), {}, lost_count_};
  result.statistics.pending = queue_.waiting();
  for (const auto& [id, replica] : replicas_)
    result.replicas.push_back(replica.facts);
  return result;
}

} // namespace serve

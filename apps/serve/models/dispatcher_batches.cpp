// Batches of a dispatcher: on their way to replicas, back, and to others when a replica is lost.
#include "counting.hpp"
#include "dispatcher.hpp"
#include "generation_messages.hpp"
#include "large_reply.hpp"
#include "request_check.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>

#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Clock;
using gpuactors::deadline_after;
using gpuactors::Errc;
using gpuactors::Error;
using gpuactors::never;
using gpuactors::Result;
using gpuactors::TimePoint;

namespace {

/// After so many lost replicas a request is suspected of killing them and goes alone; after so many it is failed.
constexpr int losses_until_alone = 2;
constexpr int losses_until_failed = 5;

/// Whether an error says that the replica is gone, rather than that it could not infer this batch.
bool is_gone(Errc code) {
  return code == Errc::deadline_exceeded /* of the call: it is stuck */ || ends_replica(code);
}

/// The rows of one request within its batch, and of outputs with texts their bytes.
struct PartOfBatch {
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::size_t members = 0;
  const std::vector<std::span<const std::byte>>& texts;
};

/// Goes along the texts of a reply, from one request of its batch to the next.
class TextsOfReply {
public:
  TextsOfReply(const ModelFacts& facts, const BatchReply& reply) : facts_(facts) {
    if (facts.answers_texts)
      for (const auto& output : reply.outputs)
        rests_.push_back(output.view());
  }

  /// The next rows of each output, of those without texts nothing; nothing at all where there are none. The reply was
  /// checked.
  std::vector<std::span<const std::byte>> take(std::uint64_t rows) {
    std::vector<std::span<const std::byte>> result(rests_.size());
    for (std::size_t i = 0; i < rests_.size(); ++i) {
      if (!facts_.outputs[i].is_text())
        continue;
      const auto all = rests_[i];
      for (auto left = facts_.outputs[i].texts_in(rows); left > 0; --left)
        (void)take_bytes_element(rests_[i]);
      result[i] = all.first(all.size() - rests_[i].size());
    }
    return result;
  }

private:
  const ModelFacts& facts_;
  std::vector<std::span<const std::byte>> rests_;
};

/// The outputs that a request asked for, or all.
std::vector<NamedTensor> outputs_of(const ModelFacts& facts, const std::vector<std::string>& wanted,
                                    const BatchReply& reply, const PartOfBatch& part) {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < facts.outputs.size(); ++i) {
    const auto& output = facts.outputs[i];
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), output.name) == wanted.end())
      continue;
    const auto& all = reply.outputs[i];
    const auto own = output.is_text()
                         ? part.texts[i]
                         : all.view().subspan(part.first_row * output.row_bytes, part.rows * output.row_bytes);
    // Its own bytes: one client that reads slowly would keep the answers of all.
    auto data = part.members == 1 ? all : Bytes::of(std::vector<std::byte>{own.begin(), own.end()});
    result.push_back({output.name, output.type, output.shape(static_cast<std::int64_t>(part.rows)), std::move(data)});
  }
  return result;
}

} // namespace

// -- batches --------------------------------------------------------------------------------------

std::size_t Dispatcher::most_flights() const {
  return options_.facts.generative ? options_.max_running : options_.ahead + 1;
}

bool Dispatcher::has_room(const Replica& replica) const {
  return replica.flights.size() < most_flights();
}

bool Dispatcher::is_late(const Replica& replica, TimePoint now) const {
  if (options_.facts.generative || replica.flights.empty())
    return false;
  const auto expected = replica.free_at - replica.flights.begin()->second.start;
  return expected > gpuactors::Duration::zero() && now - replica.free_at > expected;
}

TimePoint Dispatcher::begins_at(const Replica& replica, TimePoint now) {
  return replica.flights.empty() ? now : std::max(now, replica.free_at);
}

Dispatcher::Load Dispatcher::load_of(const Replica& replica, TimePoint now) const {
  // Requests of a generative model run beside each other; batches run one after the other. Nothing may be known yet of
  // how long they take.
  return {options_.facts.generative ? TimePoint{} : begins_at(replica, now), replica.flights.size()};
}

Dispatcher::Replica* Dispatcher::least_loaded(TimePoint now) {
  // Among equals the oldest, so that those that are not needed stay idle and can go.
  const auto* head = queue_.head();
  if (options_.fills && head != nullptr && head->losses == 0)
    for (auto& [id, replica] : replicas_)
      if (!replica.leaving && 2 * replica.flights.size() < most_flights())
        return &replica;
  Replica* result = nullptr;
  for (auto& [id, replica] : replicas_)
    if (!replica.leaving && has_room(replica) && !is_late(replica, now)
        && (result == nullptr || load_of(replica, now) < load_of(*result, now)))
      result = &replica;
  return result;
}

void Dispatcher::pump(TimePoint now, Actions& actions) {
  ask_again_ = never;
  if (queue_.waiting() > 0 && is_hopeless(now))
    give_up_waiting(now, actions);
  for (bool sent = true; sent && queue_.waiting() > 0;)
    sent = send_next(now, actions);
}

bool Dispatcher::send_next(TimePoint now, Actions& actions) {
  if (options_.facts.has_sequences())
    return send_in_sequences(now, actions);
  auto* replica = least_loaded(now);
  if (replica == nullptr)
    return false;
  if (const auto* head = queue_.head(); head->losses > 0)
    if (const auto until = suspected_until(); until > now) {
      ask_again_ = until;
      return false;
    }
  return begin_batch(*replica, {}, now, actions);
}

bool Dispatcher::begin_batch(Replica& replica, const batching::BatchQueue::Filter& may_go, TimePoint now,
                             Actions& actions) {
  const auto start = begins_at(replica, now);
  auto next = queue_.next(start, replica.facts.share, !closing_, may_go);
  for (const auto& request : next.late)
    fail(request,
         Error{Errc::deadline_exceeded,
               fmt::format("{} cannot answer within the timeout any more", options_.facts.title)},
         reason::rejected, now, actions);
  if (next.batch.empty()) {
    ask_again_ = std::min(ask_again_, next.ask_again);
    // What waited behind them in their sequences may go now.
    return options_.facts.has_sequences() && !next.late.empty();
  }
  const auto number = ++last_flight_;
  for (const auto& request : next.batch) {
    const auto pending = pending_of(request);
    pending->sent = now;
    if (options_.facts.generative) {
      pending->replica = replica.facts.id;
      pending->flight = number;
    }
    if (request->sequence != nullptr)
      sequences_.sent(*request, replica.facts.id);
  }
  replica.free_at = deadline_after(start, times_.estimate(replica.facts.share, next.rows));
  BatchTrace trace{next.batch, next.rows, options_.facts, now};
  Launch launch{replica.run, replica.stream, replica.facts.id, number, next.rows, next.batch, trace.context};
  if (options_.facts.has_sequences())
    launches_.push_back(std::move(launch));
  else
    actions.launches.push_back(std::move(launch));
  replica.flights.emplace(number, Flight{std::move(next.batch), next.rows, start, std::move(trace)});
  return true;
}

void Dispatcher::put_back(const batching::RequestPtr& request) {
  if (request->sequence != nullptr)
    batching::Sequences::returned(*request);
  if (queue_.put_back(request))
    begin_wait(*pending_of(request), Clock::now());
}

void Dispatcher::act(Actions actions) {
  for (const auto& one : actions.launches)
    launch(one);
  for (auto& [pending, result] : actions.answers)
    std::exchange(pending->done, nullptr)(std::move(result));
  if (actions.replicas_changed)
    replicas_changed_();
  // At last: it may send what others have begun, too.
  if (options_.facts.has_sequences())
    launch_in_order();
}

bool Dispatcher::is_in_flight(const Launch& launch) const {
  const auto replica = replicas_.find(launch.replica);
  return replica != replicas_.end() && replica->second.flights.contains(launch.flight);
}

void Dispatcher::launch_in_order() {
  std::unique_lock lock{mutex_};
  if (launching_)
    return;
  launching_ = true;
  while (!launches_.empty()) {
    const auto next = std::move(launches_.front());
    launches_.pop_front();
    // It may have been withdrawn, or its replica lost, since it was begun.
    if (!is_in_flight(next))
      continue;
    lock.unlock();
    launch(next);
    lock.lock();
  }
  launching_ = false;
}

void Dispatcher::launch(const Launch& launch) {
  if (launch.stream != nullptr)
    return launch_stream(launch);
  Batch batch;
  batch.rows = launch.rows;
  for (const auto& input : options_.facts.inputs) {
    auto& parts = batch.inputs.emplace_back();
    for (const auto& member : launch.members) // it was checked
      parts.push_back(find_input(static_cast<const Pending&>(*member).request, input.name)->data.view());
  }
  if (options_.facts.has_sequences())
    for (const auto& member : launch.members) {
      auto& message = batch.sequences.emplace_back();
      write_sequence(message, static_cast<const Pending&>(*member).request.sequence);
      message.set_rows(static_cast<std::int64_t>(member->rows));
    }
  Sent sent{launch.replica, launch.flight, launch.rows, {}};
  for (const auto& member : launch.members)
    sent.member_rows.push_back(member->rows);
  const gpuactors::TraceScope scope{launch.trace};
  (*launch.run)(batch, [weak = weak_from_this(), sent = std::move(sent)](Result<BatchReply> reply) {
    if (const auto self = weak.lock())
      self->landed(sent, std::move(reply));
  });
}

Result<Dispatcher::CheckedReply> Dispatcher::check(const Sent& batch, BatchReply reply) const {
  GPUACTORS_TRY(check_reply(options_.facts, batch.rows, reply));
  CheckedReply result{std::move(reply), {}};
  TextsOfReply texts{options_.facts, result.reply};
  for (const auto rows : batch.member_rows)
    result.texts.push_back(texts.take(rows));
  return result;
}

void Dispatcher::landed(const Sent& batch, Result<BatchReply> reply) {
  const auto checked = reply ? check(batch, std::move(*reply)) : gpuactors::fail(reply.error());
  const auto gone = !reply && is_gone(reply.error().code());
  Actions actions;
  {
    const std::lock_guard lock{mutex_};
    const auto replica = replicas_.find(batch.replica);
    if (replica == replicas_.end())
      return; // it was lost, and its batch went elsewhere
    const auto found = replica->second.flights.find(batch.flight);
    if (found == replica->second.flights.end())
      return;
    const auto now = Clock::now();
    if (gone) {
      lose(replica->second, reply.error(), now, actions, batch.flight);
    } else {
      // One that overtook another was not begun when it was thought to be.
      const bool in_order = found == replica->second.flights.begin();
      auto flight = std::move(found->second);
      replica->second.flights.erase(found);
      if (replica->second.flights.empty())
        replica->second.idle_since = now;
      // A batch that waited behind this one begins now, whatever the table said; if what it said were kept, it would be
      // further from the truth with each batch.
      replica->second.free_at = now;
      for (auto& [other, waiting] : replica->second.flights) {
        waiting.start = now;
        replica->second.free_at =
            deadline_after(replica->second.free_at, times_.estimate(replica->second.facts.share, waiting.rows));
      }
      if (reply && in_order)
        times_.add(replica->second.facts.share, flight.rows, now - flight.start);
      if (checked) {
        answer_batch(flight, *checked, now, actions);
      } else {
        flight.trace.span.fail(checked.error());
        fail_batch(flight, checked.error(), now, actions);
      }
    }
    pump(now, actions);
    wake_timer();
    note_drained();
  }
  act(std::move(actions));
}

void Dispatcher::answer_batch(Flight& flight, const CheckedReply& reply, TimePoint now, Actions& actions) {
  const auto& facts = options_.facts;
  const auto& [outputs, input_time, infer_time, output_time] = reply.reply;
  auto infer = infer_time;
  if (input_time.count() == 0 && infer_time.count() == 0 && output_time.count() == 0)
    infer = std::chrono::duration_cast<std::chrono::nanoseconds>(now - flight.start);
  // With state, an answer that is too large again would cost sequences.
  if (!facts.has_sequences() || options_.sequences.memory != batching::Memory::state)
    queue_.rows_fit(flight.rows);
  ++statistics_.execution_count;
  statistics_.inference_count += flight.rows;
  statistics_.last_inference_ms = milliseconds_since_epoch();
  count(statistics_.batches[flight.rows], infer);
  latencies_.infer.add(infer);
  flight.trace.span.set("gpuactors.infer_seconds", gpuactors::to_seconds(infer));
  std::uint64_t first_row = 0;
  std::size_t number = 0;
  for (const auto& member : flight.members) {
    const PartOfBatch part{first_row, member->rows, flight.members.size(), reply.texts[number]};
    const auto batch = flight.trace.seen_by(number++);
    first_row += member->rows;
    if (!queue_.settle(*member))
      continue; // answered before, by its timeout or its client
    leave_sequence(*member, true, now, actions);
    const auto pending = pending_of(member);
    count(statistics_.success, now - pending->arrived);
    count(statistics_.queue, pending->sent - pending->arrived);
    latencies_.request.add(now - pending->arrived);
    latencies_.queue.add(pending->sent - pending->arrived);
    count(statistics_.compute_input, input_time);
    count(statistics_.compute_infer, infer);
    count(statistics_.compute_output, output_time);
    InferReply answer{facts.name, facts.version, pending->request.id, {}};
    answer.times = ReplyTimes{pending->sent - pending->arrived, infer, flight.rows, batch};
    answer.outputs = outputs_of(facts, pending->request.outputs, reply.reply, part);
    actions.answers.emplace_back(pending, std::move(answer));
  }
}

void Dispatcher::fail_large(const Flight& flight, std::string_view size, TimePoint now, Actions& actions) {
  const auto several = flight.members.size() > 1;
  if (several)
    queue_.lower_rows(flight.rows);
  else
    queue_.one_was_large();
  const auto most = gpuactors::format_bytes(gpuactors::limits::payload_bytes);
  for (const auto& member : flight.members) {
    const auto changed_state = member->sequence != nullptr && options_.sequences.memory == batching::Memory::state;
    // The actor has inferred it: only what has changed nothing there may be inferred again.
    if (several && !changed_state) {
      put_back(member);
      continue;
    }
    auto sentence =
        several
            ? fmt::format("{}: the answers to a batch of {} requests have {} together, and a message has at most {}",
                          options_.facts.title, flight.members.size(), size, most)
            : fmt::format("{}: the answer to this request of {} rows has {}, and a message has at most {}: ask for "
                          "less in one request",
                          options_.facts.title, member->rows, size, most);
    if (changed_state) {
      sentence += fmt::format("; the sequence \"{}\" has ended with it: start it anew",
                              pending_of(member)->request.sequence.id);
      spoil_sequence(*member, now, actions);
    }
    if (queue_.give_up(*member))
      fail(member, Error{several ? Errc::task_failed : Errc::invalid_argument, std::move(sentence)}, reason::backend,
           now, actions);
  }
}

void Dispatcher::fail_batch(const Flight& flight, const Error& error, TimePoint now, Actions& actions) {
  if (const auto size = size_of_large_reply(error))
    return fail_large(flight, *size, now, actions);
  // One request may be at fault, or together they need too much: alone, each gets its own answer.
  const auto blames_input = error.code() == Errc::invalid_argument;
  if ((blames_input || error.code() == Errc::out_of_memory) && flight.members.size() > 1) {
    for (const auto& member : flight.members) {
      member->alone = true;
      put_back(member);
    }
    return;
  }
  for (const auto& member : flight.members)
    if (queue_.give_up(*member))
      fail(member,
           Error{blames_input ? Errc::invalid_argument : Errc::task_failed,
                 fmt::format("{} could not infer: {}", options_.facts.title, to_string(error))},
           blames_input ? reason::other : reason::backend, now, actions);
}

void Dispatcher::lose(Replica& replica, const Error& error, TimePoint now, Actions& actions, std::uint64_t flight) {
  // What had not even begun has no part in the death.
  const auto begun = error.code() != Errc::not_begun;
  const auto why = begun ? error : Error{Errc::actor_died, error.message()};
  lost_.push_back({replica.facts.id, to_string(why)});
  ++lost_count_;
  actions.replicas_changed = true;
  empty(replica, why, true, now, actions, begun ? 0 : flight);
}

void Dispatcher::empty(Replica& replica, const Error& error, bool died, TimePoint now, Actions& actions,
                       std::uint64_t not_begun) {
  const auto id = replica.facts.id;
  auto flights = std::move(replica.flights);
  const auto served = !replica.leaving;
  replicas_.erase(id);
  if (served)
    note_gone(died ? fmt::format("the last one was lost: {}", to_string(error)) : "the last one has ended");
  lose_sequences(id, error, now, actions);
  for (auto& [number, flight] : flights) {
    flight.trace.span.fail(error);
    const auto ran = died && number != not_begun;
    for (const auto& member : flight.members) {
      if (options_.facts.generative) {
        lose_stream(member, error, ran, now, actions);
        continue;
      }
      if (!ran || number != flights.begin()->first) {
        put_back(member); // that one waited behind the batch that ran, and has no part in this
        continue;
      }
      if (++member->losses >= losses_until_failed) {
        if (queue_.give_up(*member))
          fail(member,
               Error{Errc::worker_died, fmt::format("{}: {} replicas were lost with this request: {}",
                                                    options_.facts.title, member->losses, to_string(error))},
               reason::backend, now, actions);
        continue;
      }
      member->alone = member->alone || member->losses >= losses_until_alone;
      put_back(member);
    }
  }
}

} // namespace serve

#include <gpuactors/actor/held_calls.hpp>
#include <gpuactors/actor/hosted_call.hpp>

#include <optional>
#include <utility>

namespace gpuactors::detail {

/// The calls of a batch that runs, as other threads see them.
class HeldCalls::RunningBatch final : public RunningCall {
public:
  RunningBatch(const std::vector<Running>& calls, caf::event_based_actor* host)
    : host_(caf::actor_cast<caf::strong_actor_ptr>(host)) {
    for (const auto& call : calls)
      if (call.waiting.caller.first != nullptr)
        callers_.push_back(call.waiting.caller);
  }

  [[nodiscard]] std::function<void(const Error&)> refusal() const override {
    return [callers = callers_, host = host_](const Error& error) {
      for (const auto& [caller, id] : callers)
        caf_version::enqueue(caller, host, id, to_caf(error));
    };
  }

private:
  caf::strong_actor_ptr host_;
  std::vector<std::pair<caf::strong_actor_ptr, std::uint64_t>> callers_;
};

std::optional<std::uint64_t> HeldCalls::ahead_of(const MethodType* method) const {
  return waiting_ && waiting_->method != method ? std::optional{waiting_->number} : std::nullopt;
}

HeldCalls::Held HeldCalls::hold(caf::event_based_actor* host, const Call& call, const MethodType& method) {
  const bool first = !waiting_;
  if (first) {
    const auto came = call.made != TimePoint{} ? call.made : Clock::now();
    waiting_.emplace(WaitingBatch{++last_, &method, deadline_after(came, method.batch->max_wait), {}});
  }
  // The message loses its sender with its promise.
  auto caller = caf_version::caller_of(*host);
  waiting_->calls.push_back(Waiting{call, host->make_response_promise(), std::move(caller)});
  return {waiting_->number, first, waiting_->calls.size() >= method.batch->max_size || control_->is_ending()};
}

Duration HeldCalls::wait_of(std::uint64_t batch) const {
  return waiting_ && waiting_->number == batch ? waiting_->due - Clock::now() : Duration::zero();
}

std::vector<HeldCalls::Running> HeldCalls::begin(WaitingBatch& batch, caf::event_based_actor* host) {
  std::vector<Running> running;
  running.reserve(batch.calls.size());
  for (auto& waiting : batch.calls) {
    Count count{methods_->find(batch.method->number)};
    if (Answer refusal; !admit(waiting.call, *control_, count, refusal)) {
      if (refusal)
        answers_->give(host, waiting.promise, std::move(*refusal));
      continue;
    }
    if (Count::needs_span(waiting.call, type_))
      static_cast<void>(count.begin_span(waiting.call, type_, lease_));
    auto withdrawn = std::make_shared<std::atomic<bool>>(false);
    control_->defer(waiting.call.id, [withdrawn] { withdrawn->store(true, std::memory_order_relaxed); });
    control_->end();
    running.push_back(Running{std::move(waiting), std::move(count), std::move(withdrawn)});
  }
  return running;
}

void HeldCalls::run(std::uint64_t batch, Actor& object, caf::event_based_actor* host) {
  if (!waiting_ || waiting_->number != batch)
    return;
  auto due = *std::exchange(waiting_, std::nullopt);
  auto running = begin(due, host);
  if (running.empty())
    return;
  std::vector<BatchedCall> calls;
  calls.reserve(running.size());
  for (const auto& call : running)
    calls.push_back({call.waiting.call.payload, call.waiting.call.deadline, call.withdrawn, control_.get()});
  std::vector<Result<Payload>> answers;
  const RunningBatch seen{running, host};
  auto failure = control_->begin_turn(due.method->name, Clock::now(), &seen);
  if (!failure) {
    const auto who = [&] { return name_.doing(due.method->name); };
    const auto done = guarded(who, [&]() -> Answer {
      answers = due.method->run_batch(object, calls);
      return Result<Payload>{Payload{}};
    });
    // As for a single call: a result of a device that has failed meanwhile cannot be trusted.
    failure = control_->revoked();
    if (!failure && !*done)
      failure = done->error();
  }
  control_->end_turn();
  if (failure)
    answers.assign(running.size(), fail(*failure));
  for (std::size_t i = 0; i < running.size(); ++i) {
    const auto id = running[i].waiting.call.id;
    control_->tell_if_dropped(id, answers[i]);
    running[i].count.answered(answers[i]);
    answers_->give(host, running[i].waiting.promise, std::move(answers[i]));
    // After its answer is sent: what is neither deferred nor answered could be taken back.
    control_->settle(id);
  }
}

void HeldCalls::refuse_all(caf::event_based_actor* host) {
  if (auto batch = std::exchange(waiting_, std::nullopt))
    // None of them begins any more.
    begin(*batch, host);
}

} // namespace gpuactors::detail

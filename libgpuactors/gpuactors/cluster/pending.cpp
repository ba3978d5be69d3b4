#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/actor/hosted_actor.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/cluster/pending.hpp>
#include <gpuactors/trace/call_span.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpuactors::detail {

namespace {

Result<Payload> take_payload(MessageContent& content) {
  if (!content.match_elements<Payload>())
    return fail(Errc::internal, "the answer is no payload");
  return std::move(content.get_mutable_as<Payload>(0));
}

Error withdrawn() {
  return Error{Errc::cancelled, "the caller withdrew it"};
}

} // namespace

// -- PendingWork ----------------------------------------------------------------------------------

PendingWork::~PendingWork() {
  delete span_.load();
}

void PendingWork::begin_span(Call& call, const ActorCell* actor) {
  const std::string_view type = actor != nullptr ? std::string_view{actor->type} : std::string_view{};
  if (!is_traced(type, call.method))
    return;
  call.trace = current_trace();
  if (!records_traces())
    return;
  OpenSpan span{call.method, SpanKind::client, call.trace};
  call.trace = span.context();
  if (!span.recorded())
    return;
  describe_call(span, type, call.method);
  if (actor != nullptr) {
    span.set("gpuactors.actor", static_cast<std::int64_t>(actor->id.value()));
    if (!actor->name.empty())
      span.set("gpuactors.actor_name", actor->name);
  }
  span_ = std::make_unique<OpenSpan>(std::move(span)).release();
}

void PendingWork::close_span(const Result<Payload>& result) {
  const std::unique_ptr<OpenSpan> span{span_.exchange(nullptr)};
  if (span == nullptr)
    return;
  if (!result)
    span->fail(result.error());
  span->end();
}

namespace {

/// What programs get of an error that only the library tells apart.
Error for_caller(Error error) {
  return error.code() == Errc::not_begun ? Error{Errc::actor_died, error.message()} : error;
}

} // namespace

// -- PendingTask ----------------------------------------------------------------------------------

void PendingTask::on_reply(MessageContent& content) {
  auto result = take_payload(content);
  // Frees the lease first, so that a caller who is woken by the result and submits again finds it idle.
  if (const auto dispatcher = dispatcher_.lock())
    dispatcher->answered(*this, false);
  finish(std::move(result));
}

void PendingTask::on_error(Error error) {
  if (const auto dispatcher = dispatcher_.lock()) {
    // A runner that answers so is ending: nothing more is to be sent to it.
    dispatcher->answered(*this, is_loss(error.code()) || error.code() == Errc::not_begun);
    if (dispatcher->retry(shared_from_this(), error))
      return;
  }
  finish(fail(for_caller(std::move(error))));
}

// A program's thread may withdraw a task, or ask for more of its stream, while another one ends the cluster.

void PendingTask::withdraw(Cancel how) {
  const auto kept = core.lock();
  if (const auto dispatcher = dispatcher_.lock(); dispatcher != nullptr && kept != nullptr)
    dispatcher->cancel(*this, withdrawn(), how);
  else
    finish(fail(withdrawn()));
}

void PendingTask::grant_credit(std::uint32_t items) {
  const auto kept = core.lock();
  if (const auto dispatcher = dispatcher_.lock(); dispatcher != nullptr && kept != nullptr)
    dispatcher->credit(*this, items);
}

std::shared_ptr<Executor> PendingTask::executor() const {
  const auto kept = core.lock();
  return kept != nullptr ? kept->executor() : nullptr;
}

// -- PendingCall ----------------------------------------------------------------------------------

PendingCall::~PendingCall() {
  uncount();
}

void PendingCall::uncount() noexcept {
  if (counted_.exchange(false, std::memory_order_relaxed))
    cell_->pending->fetch_sub(1, std::memory_order_relaxed);
}

void PendingCall::on_reply(MessageContent& content) {
  let_go();
  finish(take_payload(content));
}

void PendingCall::on_error(Error error) {
  if (retry_call(shared_from_this(), error))
    return;
  // Not if the method itself answers so: then it has ended.
  if (error.code() == Errc::deadline_exceeded && Clock::now() >= call_.deadline)
    ask_to_stop(Cancel::ask);
  if (error.code() == Errc::worker_died)
    error = named(std::move(error));
  let_go();
  finish(fail(for_caller(std::move(error))));
}

Error PendingCall::named(Error error) {
  auto who = actor_in_words(cell_->name, cell_->type, cell_->id);
  if (error.message().starts_with(who))
    return error;
  {
    const std::scoped_lock lock{cell_->mutex, mutex_};
    // Not where it lives by now, if it was started again.
    if (LeaseId{cell_->info.lease().id()} == lease_)
      who += place_in_words(to_lease_info(cell_->info.lease()));
  }
  return {error.code(), fmt::format("{}: {}", who, error.message())};
}

Error PendingCall::overdue() const {
  return Error{Errc::deadline_exceeded,
               fmt::format("{} has not answered by the call's deadline; the method may still be running",
                           actor_in_words(cell_->name, cell_->type, cell_->id))};
}

void PendingCall::let_go() {
  uncount();
  // A future may outlive the cluster, but must not keep its actors alive.
  const std::lock_guard lock{mutex_};
  life_ = nullptr;
}

void PendingCall::withdraw(Cancel how) {
  if (finished()) {
    // The method may still be running if an earlier request to stop had no effect.
    if (how == Cancel::force && withdrawn_)
      ask_to_stop(how);
    return;
  }
  withdrawn_ = true;
  uncount();
  RequestTicket ticket = 0;
  {
    const std::lock_guard lock{mutex_};
    ticket = ticket_;
  }
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  if (core == nullptr || ticket == 0) {
    finish(fail(withdrawn()));
    return;
  }
  ask_to_stop(how);
  core->port().abandon(ticket, withdrawn());
  // `abandon` has no effect while the actor is looked up for the next attempt: the ticket is that of the earlier one.
  let_go();
  finish(fail(withdrawn()));
}

void PendingCall::refuse_own_wait() {
  const auto here = hosted_actor();
  if (here.handle == nullptr || finished())
    return;
  RequestTicket ticket = 0;
  CallId id;
  {
    const std::lock_guard lock{mutex_};
    // While it is looked up, the call is nowhere yet.
    if (life_ == nullptr || life_->handles.holder->get() != here.handle)
      return;
    ticket = ticket_;
    id = id_;
  }
  const auto core = cell_->core.lock();
  if (core == nullptr || method_ == nullptr || method_->concurrent != (here.thread == CallThread::concurrent))
    return;
  // The items of a stream that was kept come from any thread; an answer, also its end, comes from the actor's.
  if (call_.stream && here.control->is_deferred(id))
    return;
  // Else it would run after all, and nobody would have its answer.
  here.control->cancel(id);
  const Error error{
      Errc::invalid_argument,
      fmt::format("{} waits for its own method {}, which runs only when what waits has returned: take its answer with "
                  "Actor::after, or do its work with Actor::post{}",
                  actor_in_words(cell_->name, cell_->type, cell_->id), method_->name,
                  method_->concurrent ? "" : "; or register it with concurrent_method, if it may run beside others")};
  core->port().abandon(ticket, error);
  // As in `withdraw`.
  let_go();
  finish(fail(error));
}

void PendingCall::ask_to_stop(Cancel how) {
  v1::CancelCall message;
  message.set_force(how == Cancel::force);
  std::shared_ptr<const ActorLife> life;
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  if (core != nullptr) {
    const std::scoped_lock lock{cell_->mutex, mutex_};
    life = life_;
    // `let_go` has cleared `life_`; the cell's is the same unless the actor was restarted since.
    if (life == nullptr && cell_->life != nullptr && cell_->life->lease == lease_)
      life = cell_->life;
    message.set_call(id_.value());
    message.set_lease(lease_.value());
  }
  if (core != nullptr && life != nullptr && life->handles.worker != nullptr)
    core->port().tell(life->handles.worker, std::move(message));
}

std::shared_ptr<Executor> PendingCall::executor() const {
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  return core != nullptr ? core->executor() : nullptr;
}

void PendingCall::grant_credit(std::uint32_t items) {
  v1::StreamCredit message;
  std::shared_ptr<const ActorLife> life;
  {
    const std::lock_guard lock{mutex_};
    life = life_;
    message.set_call(id_.value());
    message.set_lease(lease_.value());
    message.set_items(items);
  }
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  if (core != nullptr && life != nullptr && life->handles.worker != nullptr)
    core->port().tell(life->handles.worker, std::move(message));
}

} // namespace gpuactors::detail

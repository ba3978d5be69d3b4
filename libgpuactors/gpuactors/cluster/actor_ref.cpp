#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/detail/core.hpp>

#include <fmt/format.h>

namespace gpuactors {

namespace detail {

/// Starts calls: checks them, finds the actor, sends.
class CallStarter {
public:
  /// @returns what is wrong with the call before anything is sent.
  static Result<void> check(ClusterCore& core, const ActorCell& cell, const Call& call,
                            const google::protobuf::Descriptor* output);

  /// Sends `call` to the actor, looking it up again if it has ended since.
  static void send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending, Call call);

  static void bind(const std::shared_ptr<PendingCall>& pending, std::shared_ptr<ActorCell> cell) {
    pending->cell_ = std::move(cell);
  }

private:
  class Lookup;
};

/// The broker's answer to where the actor is now; then the call goes there.
class CallStarter::Lookup : public PendingReply {
public:
  Lookup(std::shared_ptr<PendingCall> pending, Call call) : pending_(std::move(pending)), call_(std::move(call)) {
    // nop
  }

  void on_reply(caf_version::Content& content) override {
    const auto cell = pending_->cell_;
    const auto core = cell->core.lock();
    if (core == nullptr)
      return on_error(Error{Errc::unavailable, "the cluster was closed"});
    core->set_place(*cell, content.get_as<v1::ActorInfo>(0), content.get_as<caf::strong_actor_ptr>(1),
                    content.get_as<caf::strong_actor_ptr>(2));
    send(*core, pending_, std::move(call_));
  }

  void on_error(Error error) override {
    if (error.code() == Errc::not_found)
      error = Error{Errc::actor_died, error.message()};
    pending_->finish(fail(std::move(error)));
  }

private:
  std::shared_ptr<PendingCall> pending_;
  Call call_;
};

Result<void> CallStarter::check(ClusterCore& core, const ActorCell& cell, const Call& call,
                                const google::protobuf::Descriptor* output) {
  if (cell.max_pending > 0 && cell.pending.load(std::memory_order_relaxed) > cell.max_pending)
    return fail(Errc::queue_full, fmt::format("{} calls of actor {} are waiting, as many as max_pending_calls allows",
                                              cell.max_pending, cell.name.empty() ? cell.type : cell.name));
  GPUACTORS_TRY(call.payload.check_size());
  const auto type = core.registry().find_actor(cell.type);
  if (!type)
    return {}; // not ours: the worker knows it and answers
  GPUACTORS_LET(method, (*type)->find_method(call.method));
  return check_call(fmt::format("actor type {}: method", cell.type), *method, call.payload, output, call.stream);
}

void CallStarter::send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending, Call call) {
  if (pending->finished())
    return; // withdrawn while the actor was looked up
  auto& cell = *pending->cell_;
  if (cell.down.load(std::memory_order_acquire)) {
    v1::FindActor message;
    message.set_id(cell.id.value());
    const auto deadline = call.deadline;
    core.port().ask(std::make_shared<Lookup>(pending, std::move(call)), core.broker(), deadline, std::move(message));
    return;
  }
  caf::strong_actor_ptr handle;
  {
    const std::scoped_lock lock{cell.mutex, pending->mutex_};
    handle = cell.handle;
    pending->control_ = cell.control;
    pending->lease_ = LeaseId{cell.info.lease().id()};
  }
  auto ticket = core.port().add(pending, handle, call.deadline);
  if (!ticket) {
    pending->finish(fail(ticket.error()));
    return;
  }
  call.id = core.port().call_id(*ticket);
  {
    const std::lock_guard lock{pending->mutex_};
    pending->ticket_ = *ticket;
    pending->id_ = call.id;
  }
  if (pending->finished())
    return core.port().abandon(*ticket, Error{Errc::cancelled, "the caller withdrew it"});
  core.port().deliver(*ticket, handle, std::move(call));
}

} // namespace detail

namespace {

const std::string no_text;

} // namespace

ActorId ActorRef::id() const noexcept {
  return cell_ != nullptr ? cell_->id : ActorId{};
}

const std::string& ActorRef::name() const noexcept {
  return cell_ != nullptr ? cell_->name : no_text;
}

const std::string& ActorRef::type() const noexcept {
  return cell_ != nullptr ? cell_->type : no_text;
}

v1::ActorInfo ActorRef::info() const {
  if (cell_ == nullptr)
    return {};
  const std::lock_guard lock{cell_->mutex};
  return cell_->info;
}

caf::actor ActorRef::handle() const {
  if (cell_ == nullptr)
    return {};
  const std::lock_guard lock{cell_->mutex};
  return caf::actor_cast<caf::actor>(cell_->handle);
}

Future<Payload> ActorRef::call_payload(std::string_view method, Payload input, Duration deadline) const {
  auto state = std::make_shared<detail::WorkState<Payload, detail::PendingCall>>();
  start(state, *state, method, std::move(input), nullptr, deadline, false);
  return Future<Payload>{std::move(state)};
}

void ActorRef::start(const std::shared_ptr<detail::PendingCall>& call, detail::FutureCore& future,
                     std::string_view method, Payload input, const google::protobuf::Descriptor* output,
                     Duration deadline, bool stream) const {
  if (const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr)
    future.executor = core->executor();
  start(call, method, std::move(input), output, deadline, stream);
}

void ActorRef::start(const std::shared_ptr<detail::PendingCall>& pending, std::string_view method, Payload input,
                     const google::protobuf::Descriptor* output, Duration deadline, bool stream) const {
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  if (core == nullptr) {
    pending->finish(cell_ == nullptr ? fail(Errc::invalid_argument, "the actor reference is empty")
                                     : fail(Errc::unavailable, "the cluster was closed"));
    return;
  }
  cell_->pending.fetch_add(1, std::memory_order_relaxed);
  detail::CallStarter::bind(pending, cell_);
  Call call;
  call.method = method;
  call.payload = std::move(input);
  call.deadline = deadline_after(Clock::now(), deadline);
  call.stream = stream;
  if (auto checked = detail::CallStarter::check(*core, *cell_, call, output); !checked) {
    pending->finish(fail(checked.error()));
    return;
  }
  detail::CallStarter::send(*core, pending, std::move(call));
}

} // namespace gpuactors

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

  /// Sends the call to the actor, looking it up again if it has ended since.
  static void send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending);

  /// Sends it once more if its actor's death is what ended it, and if it may be.
  static bool retry(const std::shared_ptr<PendingCall>& pending, const Error& error);

  static void bind(const std::shared_ptr<PendingCall>& pending, std::shared_ptr<ActorCell> cell) {
    pending->retries_left_ = cell->max_retries;
    pending->cell_ = std::move(cell);
  }

  static Call& call_of(PendingCall& pending) {
    return pending.call_;
  }

private:
  class Lookup;
};

/// The broker's answer to where the actor is now; then the call goes there.
class CallStarter::Lookup : public PendingReply, public std::enable_shared_from_this<CallStarter::Lookup> {
public:
  explicit Lookup(std::shared_ptr<PendingCall> pending) : pending_(std::move(pending)) {
    // nop
  }

  void on_reply(caf_version::Content& content) override {
    const auto core = pending_->cell_->core.lock();
    if (core == nullptr)
      return on_error(Error{Errc::unavailable, "the cluster was closed"});
    auto info = content.get_as<v1::ActorInfo>(0);
    Place place{content.get_as<caf::strong_actor_ptr>(1), content.get_as<caf::strong_actor_ptr>(2)};
    core->locate(info, std::move(place),
                 [self = shared_from_this(), info](Result<Place> found) { self->located(info, std::move(found)); });
  }

  void on_error(Error error) override {
    if (error.code() == Errc::not_found)
      error = Error{Errc::actor_died, error.message()};
    pending_->finish(fail(std::move(error)));
  }

private:
  void located(const v1::ActorInfo& info, Result<Place> place) {
    const auto core = pending_->cell_->core.lock();
    if (core == nullptr)
      return on_error(Error{Errc::unavailable, "the cluster was closed"});
    if (place) {
      core->set_place(*pending_->cell_, info, *place);
      return send(*core, pending_);
    }
    if (place.error().code() != Errc::worker_died && place.error().code() != Errc::stale_epoch)
      return on_error(place.error());
    // It has died since, and the broker has not heard of it yet.
    core->links()->after(limits::redial_shortest, [pending = pending_] {
      if (const auto again = pending->cell_->core.lock())
        send(*again, pending);
    });
  }

  std::shared_ptr<PendingCall> pending_;
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

void CallStarter::send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending) {
  if (pending->finished())
    return; // withdrawn while the actor was looked up
  auto& cell = *pending->cell_;
  if (cell.down.load(std::memory_order_acquire)) {
    v1::FindActor message;
    message.set_id(cell.id.value());
    core.ask_broker(std::make_shared<Lookup>(pending), pending->call_.deadline, std::move(message));
    return;
  }
  caf::strong_actor_ptr handle;
  {
    const std::scoped_lock lock{cell.mutex, pending->mutex_};
    handle = cell.handle;
    pending->control_ = cell.control;
    pending->lease_ = LeaseId{cell.info.lease().id()};
  }
  auto ticket = core.port().add(pending, handle, pending->call_.deadline);
  if (!ticket) {
    pending->finish(fail(ticket.error()));
    return;
  }
  auto call = pending->retries_left_ > 0 ? pending->call_ : std::move(pending->call_);
  call.id = core.port().call_id(*ticket);
  {
    const std::lock_guard lock{pending->mutex_};
    pending->ticket_ = *ticket;
    pending->id_ = call.id;
  }
  if (pending->finished())
    return core.port().abandon(*ticket, Error{Errc::cancelled, "the caller withdrew it"});
  core.port().deliver(*ticket, handle, std::move(call));
  // A request to another process that has gone down just now would wait for ever: whoever failed its requests may have
  // done so before this one was entered.
  if (cell.down.load(std::memory_order_acquire))
    core.port().abandon(
        *ticket, Error{core.connected() ? Errc::worker_died : Errc::actor_died, "the actor ended before it answered"});
}

bool CallStarter::retry(const std::shared_ptr<PendingCall>& pending, const Error& error) {
  const auto died =
      error.code() == Errc::worker_died || error.code() == Errc::actor_died || error.code() == Errc::lease_revoked;
  if (pending->retries_left_ <= 0 || !died)
    return false;
  const auto core = pending->cell_->core.lock();
  if (core == nullptr || (pending->call_.deadline != never && Clock::now() >= pending->call_.deadline))
    return false;
  --pending->retries_left_;
  send(*core, pending);
  return true;
}

bool retry_call(const std::shared_ptr<PendingCall>& pending, const Error& error) {
  return CallStarter::retry(pending, error);
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

bool ActorRef::away() const noexcept {
  return cell_ != nullptr && cell_->down.load(std::memory_order_acquire);
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

StreamReader<Payload> ActorRef::stream_payload(std::string_view method, Payload input, Duration deadline) const {
  auto state = std::make_shared<detail::StreamState<Payload, detail::PendingCall>>();
  start(state, method, std::move(input), nullptr, deadline, true);
  return StreamReader<Payload>{std::move(state)};
}

void ActorRef::start(const std::shared_ptr<detail::PendingCall>& call, detail::FutureCore& future,
                     std::string_view method, Payload input, const google::protobuf::Descriptor* output,
                     Duration deadline, bool stream) const {
  if (const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr) {
    future.executor = core->executor();
    future.near = !core->connected();
  }
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
  auto& call = detail::CallStarter::call_of(*pending);
  call.method = method;
  call.payload = std::move(input);
  call.deadline = deadline_after(Clock::now(), deadline);
  call.stream = stream;
  if (auto checked = detail::CallStarter::check(*core, *cell_, call, output); !checked) {
    pending->finish(fail(checked.error()));
    return;
  }
  detail::CallStarter::send(*core, pending);
}

} // namespace gpuactors

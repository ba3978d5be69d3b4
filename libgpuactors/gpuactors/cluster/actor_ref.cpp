#include <gpuactors/actor/holder_name.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/detail/actor_cell.hpp>
#include <gpuactors/cluster/detail/actor_ends.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/wire/closed.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace detail {

/// Starts calls: checks each call, finds the actor and sends the call.
class CallStarter {
public:
  /// @returns the error of an invalid call, before anything is sent.
  static Result<void> check(PendingCall& pending, const google::protobuf::Descriptor* output);

  /// Sends the call to the actor; looks the actor up first if it has ended since.
  static void send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending);

  /// Asks the broker where the actor is, and sends the call there. Returns to the lease of the failed attempt only
  /// after `looks` further look-ups: the broker may not know of the death yet.
  static void look_up(ClusterCore& core, const std::shared_ptr<PendingCall>& pending, int looks);

  /// Sends the call again if its actor's death ended it and it has retries left. @returns whether it does.
  static bool retry(const std::shared_ptr<PendingCall>& pending, const Error& error);

  static void bind(const std::shared_ptr<PendingCall>& pending, std::shared_ptr<ActorCell> cell) {
    cell->pending->fetch_add(1, std::memory_order_relaxed);
    pending->counted_.store(true, std::memory_order_relaxed);
    pending->retries_left_ = cell->max_retries;
    pending->cell_ = std::move(cell);
  }

  /// Fails a call that is not sent.
  static void refuse(PendingCall& pending, Error error) {
    pending.let_go();
    pending.finish(fail(std::move(error)));
  }

  static Call& call_of(PendingCall& pending) {
    return pending.call_;
  }

private:
  /// Look-ups after an attempt that ended with the actor's death, with pauses that double in between.
  static constexpr int most_looks = 3;

  class Lookup;

  /// Enters `call`, the next attempt, into the port, and gives it its id.
  static Result<RequestPort::Ticket> enter(RequestPort& port, const std::shared_ptr<PendingCall>& pending,
                                           const caf::strong_actor_ptr& to, Call& call) {
    // Under the lock, for which an attempt after this one has to wait: the ticket is always that of the last one.
    const std::lock_guard lock{pending->mutex_};
    auto ticket = port.add(pending, to, call.deadline);
    if (!ticket)
      return ticket;
    call.id = port.call_id(*ticket);
    pending->ticket_ = *ticket;
    pending->id_ = call.id;
    return ticket;
  }
};

/// Takes the broker's answer to where the actor is now, and sends the call there.
class CallStarter::Lookup : public OwnReply, public std::enable_shared_from_this<CallStarter::Lookup> {
public:
  Lookup(std::shared_ptr<PendingCall> pending, int looks) : pending_(std::move(pending)), looks_(looks) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    const auto core = pending_->cell_->core.lock();
    if (core == nullptr)
      return on_error(cluster_closed());
    const auto& info = content.get_as<v1::ActorInfo>(0);
    auto told = handles_in(content);
    // While its process is being reached, the call is in none of the port's entries, which know its deadline.
    if (told.holder == nullptr)
      start_timer(*core);
    core->locate(info, std::move(told),
                 [self = shared_from_this(), info](const Result<HolderHandles>& found) { self->located(info, found); });
  }

  /// The call waits for an answer to this, and so was not sent, or not again.
  [[nodiscard]] Error overdue() const override {
    const auto& cell = *pending_->cell_;
    const auto who = actor_in_words(cell.name, cell.type, cell.id);
    return Error{
        Errc::deadline_exceeded,
        pending_->unreached_.empty()
            ? fmt::format("{} was not alive before the call's deadline, or the broker was away: the call was not sent",
                          who)
            : fmt::format("{} could not be reached before the call's deadline, so the call was not sent: {}", who,
                          pending_->unreached_)};
  }

  void on_error(Error error) override {
    if (error.code() == Errc::not_found)
      error = Error{Errc::actor_died, error.message()};
    if (error.code() == Errc::actor_died) {
      const std::lock_guard lock{pending_->cell_->mutex};
      pending_->cell_->ended = error;
    }
    pending_->let_go();
    pending_->finish(fail(std::move(error)));
  }

private:
  void start_timer(ClusterCore& core) {
    const auto deadline = pending_->call_.deadline;
    if (deadline == never)
      return;
    auto due = [self = shared_from_this()] {
      if (!self->pending_->finished())
        self->on_error(self->overdue());
    };
    auto closed = [self = shared_from_this()](Error error) { self->on_error(std::move(error)); };
    // Refused only by a port that is closed: `located` ends the call then.
    timer_ = core.port().after(deadline - Clock::now(), std::move(due), std::move(closed)).value_or(0);
  }

  void located(const v1::ActorInfo& info, const Result<HolderHandles>& found) {
    const auto core = pending_->cell_->core.lock();
    if (core == nullptr)
      return on_error(cluster_closed());
    // Else its time was over at the same moment, and that is its end.
    if (timer_ != 0 && !core->port().forget(timer_))
      return;
    auto& cell = *pending_->cell_;
    if (found && looks_ > 0 && lease_of_last_attempt() == LeaseId{info.lease().id()}) {
      // The broker does not know of the death yet; or another actor died, which the method had called.
      const auto wait = limits::redial_shortest * (1 << (most_looks - looks_));
      return pause(*core, wait,
                   [pending = pending_, looks = looks_ - 1](ClusterCore& again) { look_up(again, pending, looks); });
    }
    if (found) {
      pending_->empty_looks_ = 0;
      pending_->unreached_.clear();
      core->set_life(cell, info, *found);
      return send(*core, pending_);
    }
    if (!holder_has_ended(found.error()))
      return on_error(found.error());
    // The actor has died since, and the broker does not know of it yet: its process may take a while to end. Or its
    // node cannot be reached from here.
    pending_->unreached_ = found.error().message();
    constexpr int most_doublings = 5;
    const auto wait = limits::redial_shortest * (1 << std::min(pending_->empty_looks_++, most_doublings));
    pause(*core, wait, [pending = pending_](ClusterCore& again) { look_up(again, pending, 0); });
  }

  /// Calls `go_on` after `wait`, or at the call's deadline, or fails the call if the cluster is closed before.
  void pause(ClusterCore& core, Duration wait, std::function<void(ClusterCore&)> go_on) {
    const auto self = shared_from_this();
    auto due = [self, go_on = std::move(go_on)] {
      if (const auto again = self->pending_->cell_->core.lock())
        go_on(*again);
      else
        self->on_error(cluster_closed());
    };
    if (pending_->call_.deadline != never)
      wait = std::min(wait, std::max(Duration::zero(), pending_->call_.deadline - Clock::now()));
    const auto later =
        core.port().after(wait, std::move(due), [self](Error error) { self->on_error(std::move(error)); });
    if (!later)
      on_error(later.error());
  }

  [[nodiscard]] LeaseId lease_of_last_attempt() const {
    const std::lock_guard lock{pending_->mutex_};
    return pending_->lease_;
  }

  std::shared_ptr<PendingCall> pending_;
  int looks_;
  /// The port's timer for the call's deadline, while the actor's process is being reached.
  RequestTicket timer_ = 0;
};

Result<void> CallStarter::check(PendingCall& pending, const google::protobuf::Descriptor* output) {
  const auto& cell = *pending.cell_;
  const auto& call = pending.call_;
  if (cell.max_pending > 0 && cell.pending->load(std::memory_order_relaxed) > cell.max_pending)
    return fail(Errc::queue_full, fmt::format("{} calls of actor {} are waiting, as many as max_pending_calls allows",
                                              cell.max_pending, cell.name.empty() ? cell.type : cell.name));
  GPUACTORS_TRY(call.payload.check_size());
  if (cell.known_type == nullptr)
    return {}; // the type is not registered here: the worker knows it and checks the call
  GPUACTORS_LET(method, cell.known_type->find_method(call.method));
  pending.method_ = method;
  return check_call(*method, {call.payload, output, call.stream},
                    [&] { return fmt::format("actor type {}: method {}", cell.type, method->name); });
}

void CallStarter::send(ClusterCore& core, const std::shared_ptr<PendingCall>& pending) {
  if (pending->finished())
    return; // withdrawn while the actor was looked up
  auto& cell = *pending->cell_;
  if (cell.down.load(std::memory_order_acquire))
    return look_up(core, pending, 0);
  std::shared_ptr<const ActorLife> life;
  std::uint32_t lives = 0;
  {
    const std::scoped_lock lock{cell.mutex, pending->mutex_};
    life = cell.life;
    lives = cell.lives.load(std::memory_order_relaxed);
    if (life != nullptr) {
      pending->life_ = life;
      pending->lease_ = life->lease;
    }
  }
  if (life == nullptr) // the cluster has been closed since
    return refuse(*pending, cluster_closed());
  // Before `add`: from then on, the actor's death may have another thread use up a retry and send the call again.
  const bool may_go_again = pending->retries_left_ != 0 || cell.lives_again.load(std::memory_order_relaxed);
  auto call = may_go_again ? pending->call_ : std::move(pending->call_);
  const auto ticket = enter(core.port(), pending, life->handles.holder, call);
  if (!ticket)
    return refuse(*pending, ticket.error());
  // `withdraw` sets `withdrawn_` before it reads the ticket: a withdrawal that missed the ticket is seen here.
  if (pending->withdrawn_ || pending->finished())
    return core.port().abandon(*ticket, Error{Errc::cancelled, "the caller withdrew it"});
  core.port().deliver(*ticket, life->handles.holder, std::move(call));
  // If the actor has just ended, its requests may have been failed before this one was entered, and the call would wait
  // forever; also if the actor lives again elsewhere by now.
  const bool is_down = cell.down.load(std::memory_order_acquire);
  const bool is_same_life = cell.lives.load(std::memory_order_acquire) == lives;
  if (is_down && is_same_life && !cell.lost.load(std::memory_order_relaxed))
    core.port().abandon(*ticket, Error{Errc::not_begun, "it ended before the call began"});
  else if (is_down || !is_same_life)
    core.port().abandon(
        *ticket, Error{core.connected() ? Errc::worker_died : Errc::actor_died, "the actor ended before it answered"});
}

void CallStarter::look_up(ClusterCore& core, const std::shared_ptr<PendingCall>& pending, int looks) {
  if (pending->finished())
    return; // withdrawn in a pause
  v1::FindActor message;
  message.set_id(pending->cell_->id.value());
  core.ask_for_actor(std::make_shared<Lookup>(pending, looks), pending->call_.deadline, std::move(message));
}

bool CallStarter::retry(const std::shared_ptr<PendingCall>& pending, const Error& error) {
  // What has not begun begins in the next life, whoever may call twice.
  const bool begins_later =
      error.code() == Errc::not_begun && pending->cell_->lives_again.load(std::memory_order_relaxed);
  // A stream is not repeated: its reader would get items twice.
  if (!begins_later && (pending->retries_left_ == 0 || !is_loss(error.code()) || pending->call_.stream))
    return false;
  const auto core = pending->cell_->core.lock();
  if (core == nullptr || (pending->call_.deadline != never && Clock::now() >= pending->call_.deadline))
    return false;
  if (!begins_later && pending->retries_left_ > 0)
    --pending->retries_left_;
  look_up(*core, pending, most_looks);
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

v1::ActorHandle ActorRef::to_message() const {
  v1::ActorHandle handle;
  if (cell_ == nullptr)
    return handle;
  handle.set_id(cell_->id.value());
  handle.set_name(cell_->name);
  handle.set_type(cell_->type);
  handle.set_origin(cell_->origin);
  return handle;
}

v1::ActorInfo ActorRef::info() const {
  if (cell_ == nullptr)
    return {};
  const std::lock_guard lock{cell_->mutex};
  return cell_->info;
}

LeaseInfo ActorRef::lease() const {
  return to_lease_info(info().lease());
}

bool ActorRef::away() const noexcept {
  return cell_ != nullptr && cell_->down.load(std::memory_order_acquire);
}

namespace {

/// The answer to a look-up that no call waits for.
class Sought : public OwnReply, public std::enable_shared_from_this<Sought> {
public:
  explicit Sought(std::shared_ptr<detail::ActorCell> cell) : cell_(std::move(cell)) {
    // nop
  }

  void on_reply(MessageContent& content) override {
    const auto core = cell_->core.lock();
    if (core == nullptr)
      return done();
    const auto& info = content.get_as<v1::ActorInfo>(0);
    core->locate(info, detail::handles_in(content),
                 [self = shared_from_this(), info](const Result<detail::HolderHandles>& found) {
                   if (const auto still = self->cell_->core.lock(); still != nullptr && found)
                     still->set_life(*self->cell_, info, *found);
                   self->done();
                 });
  }

  void on_error(Error) override {
    done();
  }

private:
  void done() {
    const std::lock_guard lock{cell_->mutex};
    cell_->seek_again = deadline_after(Clock::now(), limits::redial_longest);
  }

  std::shared_ptr<detail::ActorCell> cell_;
};

} // namespace

void ActorRef::seek() const {
  if (!away())
    return;
  const auto core = cell_->core.lock();
  if (core == nullptr)
    return;
  {
    const std::lock_guard lock{cell_->mutex};
    if (Clock::now() < cell_->seek_again)
      return;
    cell_->seek_again = never; // one at a time
  }
  v1::FindActor message;
  message.set_id(cell_->id.value());
  core->ask_for_actor(std::make_shared<Sought>(cell_), deadline_after(Clock::now(), limits::call_deadline),
                      std::move(message));
}

std::size_t ActorRef::waiting_calls() const noexcept {
  return cell_ != nullptr ? cell_->pending->load(std::memory_order_relaxed) : 0;
}

std::optional<Error> ActorRef::ended() const {
  if (cell_ == nullptr)
    return std::nullopt;
  const std::lock_guard lock{cell_->mutex};
  return cell_->ended;
}

Future<ActorEnd> ActorRef::when_ended() const {
  const auto core = cell_ != nullptr ? cell_->core.lock() : nullptr;
  if (core == nullptr)
    return Future<ActorEnd>::ready_with(cell_ == nullptr ? fail(Errc::invalid_argument, "the actor reference is empty")
                                                         : fail(cluster_closed()));
  return core->ends().await(*core, to_message(), cell_);
}

caf::actor ActorRef::handle() const {
  if (cell_ == nullptr)
    return {};
  const std::lock_guard lock{cell_->mutex};
  return cell_->life != nullptr ? caf::actor_cast<caf::actor>(cell_->life->handles.holder) : caf::actor{};
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
                                     : fail(cluster_closed()));
    return;
  }
  detail::CallStarter::bind(pending, cell_);
  auto& call = detail::CallStarter::call_of(*pending);
  call.method = method;
  call.payload = std::move(input);
  call.made = Clock::now();
  call.deadline = deadline_after(call.made, deadline);
  call.stream = stream;
  pending->begin_span(call, cell_.get());
  if (auto checked = detail::CallStarter::check(*pending, output); !checked)
    return detail::CallStarter::refuse(*pending, checked.error());
  detail::CallStarter::send(*core, pending);
}

} // namespace gpuactors

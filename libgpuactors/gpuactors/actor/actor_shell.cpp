#include <gpuactors/actor/actor_shell.hpp>
#include <gpuactors/actor/hosted_actor.hpp>
#include <gpuactors/actor/posts.hpp>
#include <gpuactors/base/output_holder.hpp>
#include <gpuactors/base/wait_end.hpp>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gpuactors {

namespace {

/// Checks that the lease fits the type's ownership. Clients that know the type have checked their request; other
/// clients need not have.
Result<void> check_lease(const ActorType& type, const LeaseInfo& lease) {
  Share gpus;
  bool whole = !lease.devices.empty();
  for (const auto& device : lease.devices) {
    gpus = gpus + device.share;
    whole = whole && device.share == Share::whole(1);
  }
  if (type.ownership == Ownership::fraction && lease.devices.size() == 1)
    return {};
  if (type.ownership == Ownership::whole && whole)
    return {};
  return check_ownership(type.ownership, gpus, 0, type.name);
}

/// What a tick says. Its id is that of an answer, a function or a batch.
enum class Says : std::uint32_t {
  /// The answer with its id is there; without an id, the actor ends itself.
  answered = 0,
  grace_over,
  concurrent_ended,
  /// A function was posted; one that has its id, and waits.
  posted,
  posted_later,
  /// It is time to look after streams that were kept.
  look,
  /// A concurrent method has found a device lost.
  found_lost,
  /// The batch that has its id is due; perhaps, as it waits.
  batch_due,
  batch_waits,
};

v1::Tick tick_of(Says what, std::uint64_t id = 0) {
  v1::Tick tick;
  tick.set_what(static_cast<std::uint32_t>(what));
  tick.set_id(id);
  return tick;
}

/// Whether a message is a call of a concurrent method.
bool is_concurrent(const ActorType& type, const MessageContent& content) {
  const std::string* name = nullptr;
  if (content.match_elements<Call>())
    name = &content.get_as<Call>(0).method;
  else if (content.match_elements<std::string, Payload>())
    name = &content.get_as<std::string>(0);
  const auto method = name != nullptr ? type.methods.find(*name) : type.methods.end();
  return method != type.methods.end() && method->second.concurrent;
}

} // namespace

ActorShell::ActorShell(caf::actor_config& config, OwnThreads::Thread thread,
                       std::shared_ptr<const ProcessServices> services, std::shared_ptr<HolderControl> control,
                       LeaseInfo lease)
  : Guarded(config, services->lanes, std::move(thread)), lease_(std::move(lease)) {
  host_.services = std::move(services);
  host_.control = std::move(control);
  answers_ = std::make_shared<detail::Answers>(host_.control, host_.services->lanes);
  host_.self = this;
}

caf::behavior ActorShell::make_behavior() {
  return {
      [this](const Call& call) { return serve(call); },
      [this](const std::string& method, const Payload& input) { return serve(detail::plain_call(method, input)); },
      [this](const v1::Tick& message) { tick(message); },
      // The mailbox is in order: all calls that arrived before the fault have been answered.
      [this](const v1::DeviceFault&) { leave(); },
      [this](const v1::StartActor& order, const Payload& config) { return start(order, config); },
  };
}

void ActorShell::tick(const v1::Tick& message) {
  // In steps, as CAF keeps an actor that has ended until its last timer.
  const auto again = [&](Duration wait) {
    caf_version::post_later(this, std::min<Duration>(wait, limits::timer_step), message);
  };
  switch (static_cast<Says>(message.what())) {
  case Says::concurrent_ended:
    return end(reason_);
  case Says::posted:
    return run_posted(message.id());
  case Says::posted_later:
    if (const auto wait = host_.posts->wait_of(message.id()); wait > Duration::zero())
      return again(wait);
    return run_posted(message.id());
  case Says::look:
    looks_ = answers_->look_after_streams();
    if (looks_)
      caf_version::post_later(this, limits::reader_look, message);
    return;
  case Says::found_lost:
    return end_if_lost();
  case Says::batch_waits:
    if (const auto wait = held_->wait_of(message.id()); wait > Duration::zero())
      return again(wait);
    return run_batch(message.id());
  case Says::batch_due:
    return run_batch(message.id());
  case Says::grace_over:
    return end_itself(true);
  case Says::answered:
    if (message.id() == 0)
      return end_itself(false);
    answers_->deliver();
    end_if_lost();
    if (awaits_answers_)
      end_itself(false);
  }
}

caf_version::EnqueueResult ActorShell::enqueue(caf::mailbox_element_ptr element, caf_version::RunnerBase* runner) {
  // Clients may call, so that nothing has to be refused here.
  if (auto* concurrent = takes_calls_.load(std::memory_order_acquire);
      concurrent != nullptr && is_concurrent(*type_, MessageContent{element->content()}))
    return concurrent->enqueue(std::move(element), runner);
  return Guarded::enqueue(std::move(element), runner);
}

void ActorShell::on_exit() {
  stays_ = nullptr;
  host_.control->stop_all();
  // Usually it has ended before. Not if the program, or CAF, ends this actor in a way of its own.
  if (shared_ != nullptr) {
    caf::anon_send_exit(concurrent_, caf::exit_reason::user_shutdown);
    shared_->ended.get_future().wait();
  }
  if (held_ != nullptr)
    held_->refuse_all(this);
  answers_->fail_all(host_.control->why_ended());
  if (host_.posts != nullptr)
    host_.posts->close();
  object_.reset();
  if (host_.placement != nullptr)
    host_.control->report_lost(host_.placement->lost_devices());
  host_.placement.reset();
  host_.control->half_ended();
}

void ActorShell::end_itself(bool grace_is_over) {
  held_->refuse_all(this);
  if (grace_is_over || answers_->empty())
    return leave();
  // Whoever fulfils the promise may never do so: it may wait for a message that is refused now.
  if (std::exchange(awaits_answers_, true))
    return;
  caf_version::post_later(this, limits::stop_grace, tick_of(Says::grace_over));
}

void ActorShell::leave(caf::error reason) {
  if (shared_ == nullptr)
    return end(std::move(reason));
  if (std::exchange(leaves_, true))
    return;
  reason_ = std::move(reason);
  // Otherwise whoever drops the last reference meanwhile would destroy the object, on a thread of its own.
  stays_ = caf::actor_cast<caf::strong_actor_ptr>(this);
  // From now on calls are refused, so that a concurrent method which waits for one of them does not wait for ever. It
  // ends first: whoever learns of this actor's end has all its answers.
  host_.control->stop_all();
  held_->refuse_all(this);
  caf::anon_send_exit(concurrent_, caf::exit_reason::user_shutdown);
}

void ActorShell::end(caf::error reason) {
  ended_ = true;
  host_.control->stop_all();
  // CAF 1.x tells others of the end before it calls `on_exit`.
  if (held_ != nullptr)
    held_->refuse_all(this);
  answers_->fail_all(host_.control->why_ended());
  quit(std::move(reason));
}

caf::result<v1::Started> ActorShell::start(const v1::StartActor& order, const Payload& config) {
  set_output_holder(lease_.id);
  detail::set_wait_end(host_.control->waits_end());
  detail::set_hosted_actor({this, CallThread::own, host_.control.get()});
  auto made = make_object(order, config);
  if (made)
    made = start_concurrent();
  if (!made) {
    quit(caf::exit_reason::user_shutdown);
    return to_caf(made.error());
  }
  v1::Started started;
  started.set_pid(static_cast<std::uint32_t>(getpid()));
  return started;
}

Result<void> ActorShell::make_object(const v1::StartActor& order, const Payload& config) {
  GPUACTORS_LET(type, host_.services->registry->find_actor(order.spec().type()));
  type_ = type;
  GPUACTORS_TRY(check_lease(*type_, lease_));
  methods_ = std::make_shared<CallTable>(type_->method_names());
  host_.control->set_methods(methods_);
  host_.id = ActorId{order.actor()};
  host_.name = order.spec().name();
  host_.type = order.spec().type();
  called_ = {detail::actor_in_words(host_.name, host_.type, host_.id), detail::place_in_words(lease_)};
  answers_->set_name(called_);
  held_ = std::make_unique<detail::HeldCalls>(host_.control, answers_, methods_, type_->name, called_, lease_);
  host_.origin = order.spec().origin();
  host_.restarts = order.restarts();
  host_.posts = std::make_shared<detail::Posts>([self = caf::actor_cast<caf::actor_addr>(this)](std::uint64_t number) {
    caf_version::post(self, tick_of(number == 0 ? Says::posted : Says::posted_later, number));
  });
  if (!order.saved_type().empty())
    host_.saved = Payload::from_bytes(order.saved_type(), order.saved());
  GPUACTORS_LET(placement, Placement::open(lease_, host_.services->devices, called_.who, host_.services->quotas,
                                           host_.services->runtime_source, host_.control.get()));
  host_.placement = std::move(placement);
  try {
    GPUACTORS_LET(object, type_->make(Init{host_}, config));
    object_ = std::move(object);
  } catch (const FailedResult& failed) {
    // A loss is one of something that the constructor has used: this actor's own lease stands.
    const auto code = failed.error().code();
    return fail(is_loss(code) ? Errc::task_failed : code,
                fmt::format("{} failed: {}", called_.doing("the constructor"), failed.what()));
  } catch (const std::exception& exception) {
    return fail(Errc::task_failed,
                fmt::format("{} threw an exception: {}", called_.doing("the constructor"), exception.what()));
  } catch (...) {
    return fail(Errc::task_failed,
                fmt::format("{} threw an exception of no standard type", called_.doing("the constructor")));
  }
  return {};
}

Result<void> ActorShell::start_concurrent() {
  const auto& methods = type_->methods;
  if (std::none_of(methods.begin(), methods.end(), [](const auto& method) { return method.second.concurrent; }))
    return {};
  auto shared = std::make_shared<SharedObject>();
  shared->object = object_.get();
  shared->type = type_;
  shared->methods = methods_;
  shared->name = called_;
  shared->lease = lease_;
  shared->services = host_.services;
  shared->control = host_.control;
  shared->owner = this;
  shared->placement = host_.placement.get();
  shared->on_lost = [self = caf::actor_cast<caf::actor_addr>(this)] {
    caf_version::post(self, tick_of(Says::found_lost));
  };
  shared->on_end = [self = caf::actor_cast<caf::actor_addr>(this)] {
    caf_version::post(self, tick_of(Says::concurrent_ended));
  };
  GPUACTORS_LET(concurrent, host_.services->threads->spawn<ConcurrentShell>(system(), shared));
  shared_ = std::move(shared);
  concurrent_ = std::move(concurrent);
  caf_version::set_exit_handler(this, [this](caf::exit_msg& message) {
    // As CAF does: an actor that it is linked to may end in order.
    if (message.reason)
      leave(std::move(message.reason));
  });
  takes_calls_.store(caf::actor_cast<caf::abstract_actor*>(concurrent_), std::memory_order_release);
  return {};
}

caf::result<Payload> ActorShell::serve(const Call& call) {
  if (object_ == nullptr)
    return to_caf(Error{Errc::unavailable, "the actor was not started"});
  const auto method = type_->find_method(call.method);
  const bool is_batched = method && (*method)->batch;
  if (const auto batch = method ? held_->ahead_of(is_batched ? *method : nullptr) : std::nullopt)
    run_batch(*batch);
  if (is_batched)
    return hold(call, **method);
  auto* const stats = method ? methods_->find((*method)->number) : nullptr;
  detail::HostedCall frame{this, call, *host_.control, *answers_, stats, detail::Keeps::yes};
  object_->frame_ = &frame;
  host_.in_call = true;
  auto answer = detail::run_call(call, frame, host_.type, called_, lease_, [&]() -> Answer {
    if (!method)
      return Result<Payload>{fail(method.error())};
    return (*method)->run(*object_, frame);
  });
  object_->frame_ = nullptr;
  if (frame.kept() != nullptr && !std::exchange(looks_, true))
    caf_version::post_later(this, limits::reader_look, tick_of(Says::look));
  after_turn();
  return answers_->give(this, std::move(answer));
}

caf::result<Payload> ActorShell::hold(const Call& call, const MethodType& method) {
  const auto held = held_->hold(this, call, method);
  if (held.due)
    run_batch(held.batch);
  else if (held.first && held_->wait_of(held.batch) > Duration::zero())
    tick(tick_of(Says::batch_waits, held.batch));
  else if (held.first)
    // Behind what is in the mailbox now.
    caf_version::post(caf::actor_cast<caf::actor_addr>(this), tick_of(Says::batch_due, held.batch));
  return caf::delegated<Payload>{};
}

void ActorShell::run_batch(std::uint64_t batch) {
  host_.in_call = true;
  held_->run(batch, *object_, this);
  after_turn();
}

void ActorShell::run_posted(std::uint64_t number) {
  // What it would use may be lost, or broken.
  if (object_ == nullptr || leaves_)
    return;
  const auto function = host_.posts->take(number);
  if (!function)
    return;
  if (const auto batch = held_->ahead_of(nullptr))
    run_batch(*batch);
  if (leaves_ || ended_)
    return;
  constexpr std::string_view what = "a function that the actor has posted";
  host_.in_call = true;
  static_cast<void>(host_.control->begin_turn(what));
  const auto who = [&] { return fmt::format("a function that {}{} has posted", called_.who, called_.where); };
  auto done = detail::guarded(who, [&]() -> Answer {
    function();
    return Result<Payload>{Payload{}};
  });
  host_.control->end_turn();
  if (!*done) {
    // It has no caller to tell. A loss is one of something that it has used: this actor's own lease stands.
    host_.control->revoke(Error{Errc::actor_died, done->error().message()});
    leave();
  }
  after_turn();
}

void ActorShell::after_turn() {
  host_.in_call = false;
  if (host_.ends_itself)
    host_.end_behind_queue();
  end_if_lost();
}

void ActorShell::end_if_lost() {
  // The actor's state on a lost device is gone: the actor ends, and its options decide whether it restarts elsewhere.
  if (host_.placement != nullptr && !host_.placement->lost_devices().empty())
    leave();
}

} // namespace gpuactors

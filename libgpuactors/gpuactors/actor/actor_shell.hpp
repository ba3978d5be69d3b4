// ActorShell: the CAF actor that hosts a user's actor object, on its own thread.
#pragma once

#include <gpuactors/actor/concurrent_shell.hpp>
#include <gpuactors/actor/held_calls.hpp>
#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/own_threads.hpp>

#include <atomic>
#include <memory>

namespace gpuactors {

/// Hosts one `Actor` object: opens its devices, constructs it, serves its methods, destroys it and frees its memory.
///
/// Lifecycle: spawned on its own thread by a worker -> `StartActor` constructs the object (answered with `Started`, or
/// the error of its devices or its constructor) -> serves `Call` and `(std::string method, Payload)` -> ended by an
/// exit message, or by `Actor::end`; then it destroys the object and closes the devices. All on its own thread.
class ActorShell : public Guarded<OwnThreads::ActorBase, HolderFromClients> {
public:
  ActorShell(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<const ProcessServices> services,
             std::shared_ptr<HolderControl> control, LeaseInfo lease);

  caf::behavior make_behavior() override;
  void on_exit() override;

  using Guarded::enqueue;

  /// Passes calls of concurrent methods on: they do not wait in this mailbox.
  caf_version::EnqueueResult enqueue(caf::mailbox_element_ptr element, caf_version::RunnerBase* runner) override;

  const char* name() const override {
    return "gpuactors.actor";
  }

private:
  caf::result<v1::Started> start(const v1::StartActor& order, const Payload& config);
  Result<void> make_object(const v1::StartActor& order, const Payload& config);
  Result<void> start_concurrent();
  caf::result<Payload> serve(const Call& call);
  /// Serves the call of a batched method.
  caf::result<Payload> hold(const Call& call, const MethodType& method);
  void run_batch(std::uint64_t batch);
  void tick(const v1::Tick& message);
  /// Runs the function that was posted with this number, or the next one without.
  void run_posted(std::uint64_t number);
  /// What is due when a method, or a function that was posted, has returned.
  void after_turn();
  void end_if_lost();
  /// The actor ends itself, and what was in its mailbox is answered.
  void end_itself(bool grace_is_over);
  /// Ends the actor: at once, or after its concurrent methods.
  void leave(caf::error reason = caf::exit_reason::user_shutdown);
  /// The last step: answers what is open, and has CAF end this actor. Calls that still come wait for that: a retry that
  /// is refused at once would be used up before the next life begins.
  void end(caf::error reason);

  LeaseInfo lease_;
  detail::ActorHost host_;
  detail::HolderName called_;
  const ActorType* type_ = nullptr;
  /// How the calls of its methods went, by their numbers.
  std::shared_ptr<CallTable> methods_;
  std::unique_ptr<Actor> object_;
  std::shared_ptr<detail::Answers> answers_;
  /// The calls that wait for their batch. Null before the start.
  std::unique_ptr<detail::HeldCalls> held_;
  /// The actor has ended itself, and waits for answers that methods have promised.
  bool awaits_answers_ = false;
  /// A look after streams that were kept is due.
  bool looks_ = false;
  /// The actor ends when its concurrent methods have; it refers to itself until then.
  bool leaves_ = false;
  /// It has ended, and nothing of it runs any more.
  bool ended_ = false;
  caf::strong_actor_ptr stays_;
  caf::error reason_{caf::exit_reason::user_shutdown};
  // Null without concurrent methods. Kept until this actor is gone, because others may be passing calls on.
  std::shared_ptr<SharedObject> shared_;
  caf::actor concurrent_;
  /// The actor behind `concurrent_`, once it takes calls. Any thread.
  std::atomic<caf::abstract_actor*> takes_calls_{nullptr};
};

} // namespace gpuactors

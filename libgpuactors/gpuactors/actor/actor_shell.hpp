// ActorShell: the CAF actor that hosts a user's actor object, on its own thread.
#pragma once

#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/own_threads.hpp>

namespace gpuactors {

/// Hosts one `Actor` object: opens its devices, constructs it, serves its methods, destroys it and frees its memory.
///
/// Lifecycle: spawned on its own thread by a worker -> `StartActor` constructs the object (answered with `Started`, or
/// the error of its devices or its constructor) -> serves `Call` and `(std::string method, Payload)` -> ended by an
/// exit message; then it destroys the object and closes the devices. All on its own thread.
class ActorShell : public Guarded<OwnThreads::ActorBase, HolderFromClients> {
public:
  ActorShell(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<const ProcessServices> services,
             std::shared_ptr<HolderControl> control, LeaseInfo lease);

  caf::behavior make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.actor";
  }

private:
  caf::result<v1::Started> start(const v1::StartActor& order, const Payload& config);
  Result<void> make_object(const v1::StartActor& order, const Payload& config);
  caf::result<Payload> serve(const Call& call);

  LeaseInfo lease_;
  detail::ActorHost host_;
  const ActorType* type_ = nullptr;
  std::unique_ptr<Actor> object_;
  std::shared_ptr<detail::Answers> answers_;
};

} // namespace gpuactors

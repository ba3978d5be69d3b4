// ConcurrentShell: the CAF actor that serves those methods of an actor that run beside its others, on a second thread.
// Internal to the layer.
#pragma once

#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/own_threads.hpp>

#include <functional>
#include <future>

namespace gpuactors {

/// What an `ActorShell` shares with its `ConcurrentShell`. The object lives until the latter's end.
struct SharedObject {
  Actor* object = nullptr;
  const ActorType* type = nullptr;
  std::shared_ptr<CallTable> methods;
  detail::HolderName name;
  LeaseInfo lease;
  std::shared_ptr<const ProcessServices> services;
  std::shared_ptr<HolderControl> control;
  /// The other shell, which takes the calls of both.
  const caf::abstract_actor* owner = nullptr;
  /// What the object's lease opened; and called when a device of it turns out to be lost. It only posts.
  const Placement* placement = nullptr;
  std::function<void()> on_lost;
  /// Called at the end, when the last answer has been sent. It only posts.
  std::function<void()> on_end;
  /// Ready at the end.
  std::promise<void> ended;
};

/// Hosts the concurrent methods of an object that an `ActorShell` hosts, which passes their calls on. One call at a
/// time, all on its own thread. When it ends, whyever, the other one ends too.
class ConcurrentShell : public Guarded<OwnThreads::ActorBase, HolderFromClients> {
public:
  ConcurrentShell(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<SharedObject> shared);

  caf::behavior make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.concurrent";
  }

private:
  caf::result<Payload> serve(const Call& call);
  void tell_if_lost() const;

  std::shared_ptr<SharedObject> shared_;
  std::shared_ptr<detail::Answers> answers_;
};

} // namespace gpuactors

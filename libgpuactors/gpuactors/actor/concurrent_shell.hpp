// ConcurrentShell: the CAF actor that serves those methods of an actor that run beside its others, on a second thread.
// Internal to the layer.
#pragma once

#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/own_threads.hpp>

#include <condition_variable>
#include <mutex>

namespace gpuactors {

/// What the two shells of an actor share. The mutex is held while a concurrent method runs: the object outlives it.
struct SharedObject {
  std::mutex serving;
  /// Null after the actor's end. Guarded by the mutex.
  Actor* object = nullptr;
  const ActorType* type = nullptr;
  LeaseId lease;
  std::shared_ptr<const ProcessServices> services;
  /// Of the concurrent calls.
  std::shared_ptr<HolderControl> control;

  /// Whether the shell of concurrent methods has sent its last answer. Guarded by the mutex.
  bool ended = false;
  std::condition_variable has_ended;

  /// Lets no method begin any more, and waits for the one that runs.
  void close() {
    const std::lock_guard lock{serving};
    object = nullptr;
  }

  void end() {
    const std::lock_guard lock{serving};
    ended = true;
    has_ended.notify_all();
  }

  void await_end() {
    std::unique_lock lock{serving};
    has_ended.wait(lock, [this] { return ended; });
  }
};

/// Hosts the concurrent methods of an object that an `ActorShell` hosts, which passes their calls on. One call at a
/// time, all on its own thread.
class ConcurrentShell : public OwnThreads::ActorBase {
public:
  ConcurrentShell(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<SharedObject> shared);

  caf::behavior make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.concurrent";
  }

private:
  caf::result<Payload> serve(const Call& call);

  std::shared_ptr<SharedObject> shared_;
  std::shared_ptr<detail::Answers> answers_;
};

} // namespace gpuactors

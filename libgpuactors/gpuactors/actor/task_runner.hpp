// TaskRunner: the CAF actor that runs tasks under one lease, on its own thread.
#pragma once

#include <gpuactors/actor/hosted_call.hpp>
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/guarded.hpp>
#include <gpuactors/wire/own_threads.hpp>

#include <atomic>

namespace gpuactors {

/// Runs one task after the other under its lease; frees each task's leftover allocations before it answers.
///
/// Lifecycle: spawned on its own thread by a worker -> opened by `StartRunner` (answered with `Started`, or the error
/// of opening its devices) -> serves `Call`s -> ended by an exit message; then it closes its devices.
class TaskRunner : public Guarded<OwnThreads::ActorBase, HolderFromClients> {
public:
  TaskRunner(caf::actor_config& config, OwnThreads::Thread thread, std::shared_ptr<const ProcessServices> services,
             std::shared_ptr<HolderControl> control, LeaseInfo lease);

  caf::behavior make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.task-runner";
  }

private:
  caf::result<v1::Started> open();
  caf::result<Payload> run(const Call& call);
  /// @returns `permission_denied` for clients that the lease is not for, and for source that is not for clients.
  Result<void> check_sender(const Call& call);
  void end_if_lost();

  std::shared_ptr<const ProcessServices> services_;
  std::shared_ptr<HolderControl> control_;
  LeaseInfo lease_;
  std::unique_ptr<Placement> placement_;
  std::shared_ptr<detail::Answers> answers_;
};

} // namespace gpuactors

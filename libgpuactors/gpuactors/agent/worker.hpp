// Worker: the control actor of one process that runs tasks and actors on the devices it was given.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/messages.hpp>

#include <map>
#include <vector>

namespace gpuactors {

/// Starts a holder (a TaskRunner or ActorShell, each on a thread of its own) for a lease, passes cancellation and
/// stream credit on to it, ends it, and reports when it has ended and its memory is back.
///
/// Event-based; never runs user code, never blocks.
class Worker : public AgentHandle::base {
public:
  /// @param agent is told of ends that nobody asked for.
  Worker(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, caf::strong_actor_ptr agent);

  AgentHandle::behavior_type make_behavior() override;

  /// Ends all holders.
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.worker";
  }

private:
  using PlacedPromise = caf::typed_response_promise<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr>;
  using EndedPromise = caf::typed_response_promise<v1::LeaseEnded>;

  struct Slot {
    caf::actor holder;
    std::shared_ptr<HolderControl> control;
    std::uint64_t epoch = 0;
    std::vector<EndedPromise> waiting;
  };

  template <class Holder>
  Slot& open_slot(const v1::Lease& lease);
  caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr> start_runner(const v1::StartRunner& order);
  caf::result<v1::Started, caf::strong_actor_ptr, caf::strong_actor_ptr> start_actor(const v1::StartActor& order,
                                                                                     const Payload& config);
  caf::result<v1::LeaseEnded> end(const v1::EndLease& order);
  void ended(const v1::LeaseEnded& message);
  void grace_over(LeaseId lease);

  std::shared_ptr<const ProcessServices> services_;
  caf::strong_actor_ptr agent_;
  std::map<LeaseId, Slot> slots_;
};

} // namespace gpuactors

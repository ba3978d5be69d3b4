// Worker: the control actor of one process that runs tasks and actors on the devices it was given.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/messages.hpp>

#include <map>
#include <optional>

namespace gpuactors {

/// Starts a holder (a TaskRunner or ActorShell, each on a thread of its own) for a lease, passes cancellation and
/// stream credit on to it, ends it, and reports when it has ended and its memory is back.
///
/// Event-based; never runs user code, never blocks.
class Worker : public WorkerHandle::base {
public:
  /// @param agent is told what becomes of leases.
  /// @param hands_out_handles tell the agent where holders are; otherwise clients find them here by their leases.
  Worker(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, caf::strong_actor_ptr agent,
         bool hands_out_handles);

  WorkerHandle::behavior_type make_behavior() override;

  /// Ends all holders.
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.worker";
  }

private:
  struct Slot {
    caf::actor holder;
    std::shared_ptr<HolderControl> control;
    std::uint64_t epoch = 0;
    /// Why it could not start.
    std::optional<Error> failure;
    bool started = false;
    bool ending = false;
    /// Of its lease; and whether that was taken back because one of them has failed.
    std::vector<int> devices;
    bool revoked = false;
    /// Nothing else runs in this process.
    bool alone = false;
    /// What was last told of it.
    std::uint64_t memory_bytes = 0;
    std::uint64_t calls = 0;
  };

  template <class Holder, class Order, class... Ins>
  void start(const Order& order, const Ins&... message);
  /// Null if there is no thread for it: told to the agent.
  template <class Holder>
  Slot* open_slot(const v1::Lease& lease);
  void started(const v1::Lease& lease, std::uint32_t pid);
  void failed(LeaseId lease, Error error);
  void end(const v1::EndLease& order);
  void ended(v1::LeaseEnded message);
  caf::result<v1::Started, caf::strong_actor_ptr> find(const v1::FindHolder& message);
  void cancel(const v1::CancelCall& message);
  void take_back(const v1::DeviceFault& message);
  void grace_over(LeaseId lease);
  void stuck(LeaseId lease, const Slot& slot, std::string text);
  void report_usage();

  std::shared_ptr<const ProcessServices> services_;
  caf::strong_actor_ptr agent_;
  bool hands_out_handles_;
  std::map<LeaseId, Slot> slots_;
  bool reporting_ = false;
};

} // namespace gpuactors

// Worker: the control actor of a process that runs tasks and actors on its devices.
#pragma once

#include <gpuactors/actor/holder_control.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/guarded.hpp>

#include <functional>
#include <map>
#include <optional>

namespace gpuactors {

/// Starts a holder for each lease (a TaskRunner or ActorShell, each on its own thread), passes cancellation and stream
/// credit on to it, ends it, and reports when it has ended and its memory is free.
///
/// Event-based; never runs user code, never blocks.
class Worker : public Guarded<WorkerHandle::base, WorkerFromClients> {
public:
  /// @param agent gets the reports about leases.
  /// @param hands_out_handles whether the agent is told the holders' handles; otherwise clients look holders up here,
  ///        by lease.
  /// @param leave has the process exit, as nothing runs in it any more; must not block.
  Worker(caf::actor_config& config, std::shared_ptr<const ProcessServices> services, caf::strong_actor_ptr agent,
         bool hands_out_handles, std::function<void()> leave = {});

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
    /// Of a lease for tasks: whose they are, as in `TaskRunner::check_sender`. Everybody may call an actor.
    std::optional<std::string> tasks_of;
    /// Why the holder could not start, or lost its lease; the error for the final report.
    std::optional<Error> failure;
    bool started = false;
    bool ending = false;
    /// The lease's devices, and whether the lease was revoked because one of them has failed.
    std::vector<int> devices;
    bool revoked = false;
    /// Nothing else runs in the process, so it may be killed to cancel a call.
    bool alone = false;
    /// After which time a method counts as stuck; zero: none does.
    Duration stuck_after{};
    /// What was running at the last look, and for how long by the looks of this actor: time in which the process stood
    /// still does not count.
    TimePoint busy_since = never;
    Duration busy_for{};
    bool told_stuck = false;
    /// Values of the last usage report.
    std::uint64_t memory_bytes = 0;
    std::uint64_t calls = 0;
    std::vector<MetricValue> metrics;
    std::vector<CallCounts> methods;
  };

  template <class Holder, class Order, class... Ins>
  void start(const Order& order, const Ins&... message);
  /// @returns null if no thread can be created; the agent has been told then.
  template <class Holder>
  Slot* open_slot(const v1::Lease& lease);
  void started(const v1::Lease& lease, std::uint32_t pid);
  void failed(LeaseId lease, Error error);
  void end(const v1::EndLease& order);
  void ended(v1::LeaseEnded message);
  caf::result<v1::Started, caf::strong_actor_ptr> find(const v1::FindHolder& message);
  /// The lease that a message names; null if there is none, or the sender has no business there.
  Slot* slot_for_sender(LeaseId lease);
  void cancel(const v1::CancelCall& message);
  /// Ends what has a lease on these devices.
  void revoke_on(const v1::DeviceFault& message);
  /// The process is about to be killed: answers all calls with the reason. Without one, it leaves.
  void give_up(const v1::EndProcess& message);
  void end_waits(LeaseId lease);
  void grace_over(LeaseId lease);
  void stuck(LeaseId lease, const Slot& slot, std::string text);
  void report_usage();
  void report_tasks();
  void look_for_stuck();

  std::shared_ptr<const ProcessServices> services_;
  caf::strong_actor_ptr agent_;
  bool hands_out_handles_;
  std::function<void()> leave_;
  std::map<LeaseId, Slot> slots_;
  bool reporting_ = false;
  /// The process is about to be killed.
  bool gives_up_ = false;
  TimePoint last_look_ = never;
  /// Of the last report.
  std::vector<CallCounts> tasks_;
};

} // namespace gpuactors

// AgentCore: a node's leases and worker processes, and what the node decides about them. It has no actors, threads,
// clock or processes of its own: AgentWorld provides what it needs from outside.
#pragma once

#include <gpuactors/agent/core/agent_world.hpp>
#include <gpuactors/agent/core/device_faults.hpp>
#include <gpuactors/agent/core/instance_table.hpp>
#include <gpuactors/agent/core/memory_guard.hpp>
#include <gpuactors/agent/core/program_table.hpp>
#include <gpuactors/agent/core/start_blame.hpp>
#include <gpuactors/agent/core/usage_reports.hpp>
#include <gpuactors/agent/last_lines.hpp>
#include <gpuactors/base/limits.hpp>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gpuactors {

struct AgentOptions {
  /// What the node offers.
  v1::Node node{};
  /// Tells this agent from an earlier one of the same node.
  std::uint64_t id = 0;
  /// The host that workers listen at.
  std::string host{};
  /// What the workers run.
  ProgramTable programs{};
  /// Heartbeat interval and link timeout of the agent's process.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// The part of the machine's memory in use above which a worker is ended; 0 and 1: none is. Nothing: nobody looks at
  /// the memory of workers at all.
  std::optional<double> memory_threshold{};
  /// Processes for one lease get `limits::lease_queues` of CUDA's hardware queues instead of what they inherit.
  bool limits_queues = false;
};

/// Runs, of each program, one worker for each device, for the leases on that device alone; one for work without a
/// device; and one for each lease with several devices, with other accelerators or with `isolated`, which ends with the
/// lease.
///
/// States of a worker: starting -> up -> (ending) -> reaped. The leases of an ending worker are reported as ended only
/// after it was reaped: only then is their memory really free. One in which nothing runs any more sends what it still
/// has to send and exits; one that does not answer is killed. The broker may restart or be out of reach: the agent then
/// registers again with all its leases. One thread; never blocks. Each public function takes one message of
/// wire/messages.hpp or one event of the world; control.proto documents the messages.
class AgentCore {
public:
  /// `world` must outlive the core.
  AgentCore(AgentWorld& world, AgentOptions options);

  // -- events of the world ---------------------------------------------------------------------

  void wake(AgentWake what, std::uint64_t about);
  /// There is a new connection to the broker; null: the last one is lost.
  void broker_changed(const ContactPtr& broker);
  void worker_lost(std::uint64_t number);
  /// @param text how, as the process table says.
  void worker_exited(std::uint64_t number, const std::string& text, const LastLines& lines = {});
  void device_failed(const v1::DeviceFault& message);
  void device_used(v1::DeviceUse message);
  /// The workers run these programs from now on, which may be the same ones anew: what runs goes on where it is, and
  /// what starts does so in new processes. Not if they do not see, by UUID, each device that is in use.
  void programs_changed(ProgramTable programs, const std::set<std::string>& seen);
  /// What the world has seen of the memory of workers.
  void memory_seen(const MemoryLook& look);

  // -- orders of the broker --------------------------------------------------------------------

  void start(const v1::StartRunner& order);
  void start(const v1::StartActor& order, const Payload& config);
  void end(const v1::EndLease& order);

  // -- messages of workers ---------------------------------------------------------------------

  /// @returns `not_found` for a worker that the agent does not wait for.
  Result<void> worker_up(const v1::WorkerHello& message, const ContactPtr& control);
  void started(v1::LeaseStarted message);
  void ended(v1::LeaseEnded message);
  void stuck(const v1::LeaseStuck& message);
  void saved(const v1::ActorSaved& message);
  void used(const v1::HolderUsage& message);

  // -- the process is about to end -------------------------------------------------------------

  /// Asks the broker to empty the node.
  void leave(const v1::DrainNode& message);
  /// The process ends now: tells the broker that this is no accident.
  void say_goodbye();

  /// Returns the leases that are held here, also those whose holder has ended and whose process has not.
  [[nodiscard]] std::vector<LeaseId> held() const;

private:
  using Order = std::function<void(const ContactPtr& worker)>;
  using Environment = google::protobuf::Map<std::string, std::string>;

  /// Whether a request wants its own process, and with which environment variables.
  struct Isolated {
    bool wanted = false;
    const Environment& environment;
  };

  struct WorkerRecord {
    std::uint64_t number = 0;
    std::string key;
    /// The lease that the worker was started for and ends with, after the leases that borrow from it; null for a shared
    /// worker.
    LeaseId owner;
    /// The same lease, also when the worker no longer ends with it.
    LeaseId started_for;
    /// Indices of the devices that it serves.
    std::vector<int> devices;
    /// What it runs.
    ProgramTable::Program program;
    /// Its program has changed since: it gets no more work, but what borrows from its leases, and ends with the last.
    bool retired = false;
    /// The worker is being ended and gets no more work.
    bool ending = false;
    /// It was told to exit by itself, and is killed when its time for that is over.
    bool leaves = false;
    /// Since when it is ended because of its memory, for a reason that its leases have.
    std::optional<TimePoint> beyond_memory;
    /// A holder of it has told of a lost device.
    bool told_loss = false;
    /// It did not come up in time.
    bool late = false;
    /// Null while the worker is not up.
    ContactPtr control;
    /// The connection to it is lost.
    bool lost = false;
    /// How it has exited, as the process table says; its last messages may still be on their way.
    std::optional<std::string> exit;
    LastLines last_lines;
    std::string address;
    std::uint32_t pid = 0;
    /// Why there never was a process.
    std::optional<Error> failure;
    /// Orders to send once the worker is up.
    std::vector<Order> orders;
    std::set<LeaseId> leases;
  };

  struct LeaseRecord {
    v1::HeldLease held;
    std::uint64_t worker = 0;
    /// It was told to end, and nobody wonders why it does.
    bool asked = false;
    /// Set when the holder has ended and the report waits until the worker is reaped.
    std::optional<v1::LeaseEnded> ended;
    /// The worker's latest usage report, for a broker that restarts.
    std::optional<v1::HolderUsage::Entry> usage;
  };

  struct EndedAway {
    v1::HeldLease held;
    v1::LeaseEnded end;
  };

  // -- leases: agent_core.cpp ------------------------------------------------------------------

  template <class Message, class... Ins>
  void start(Message order, v1::HeldLease held, const TypeWanted& type, Isolated isolated, const Ins&... message);
  /// Returns the report for a lease that must not start here; nothing if it may.
  [[nodiscard]] std::optional<v1::LeaseEnded> refused(const v1::Lease& lease, const TypeWanted& type,
                                                      const Isolated& isolated) const;
  /// Returns the record of the lease that a message is about; null if it has ended or has another epoch.
  template <class Message>
  [[nodiscard]] LeaseRecord* find(const Message& message);
  /// The holder does not stop: ends its process.
  void end_by_force(LeaseRecord& lease, const std::string& why);
  void report(v1::LeaseEnded message);

  // -- workers: workers.cpp --------------------------------------------------------------------

  /// Returns the worker of the lease that this one borrows from; null if it borrows from none.
  [[nodiscard]] const WorkerRecord* lender_of(const v1::Lease& lease) const;
  WorkerRecord& worker_for(const v1::HeldLease& held, const TypeWanted& type, const Isolated& isolated);
  WorkerRecord& shared_worker(std::vector<v1::Device> devices, const ProgramTable::Program& program);
  /// Starts the program's shared worker of a device although nothing wants it, to see whether it comes up.
  void try_on(int device, const ProgramTable::Program& program);
  /// @param owner the lease that the process belongs to; null for a shared process.
  WorkerRecord& start_worker(std::string key, std::vector<v1::Device> devices, ProgramTable::Program program,
                             const v1::HeldLease* owner, const Environment& environment, std::string purpose);
  void kill_worker(WorkerRecord& worker);
  /// Nothing runs in the worker any more: ends it when it has sent what it still has to send.
  void dismiss(WorkerRecord& worker);
  /// Its process is gone, and all that it had to say has arrived.
  void bury(std::uint64_t number, std::string text);
  /// New leases with the worker's key get a new worker.
  void free_key(const WorkerRecord& worker);

  // -- to the broker: reports.cpp --------------------------------------------------------------

  template <class Message>
  void tell_broker(Message message);
  void tell_that_it_leaves();
  void register_node();
  /// Another node has this one's name: ends what runs here, which the broker has given up.
  void end_all();
  void registration_answered(std::uint64_t registration, const std::optional<Result<void>>& answer);
  /// Sends the broker all leases that are held here, or were when they ended unheard. @returns their number.
  std::uint32_t tell_held();
  void send_saves();
  void report_certificate();
  void report_tasks();
  /// Keeps the end of an actor that has ended itself, to be repeated at each registration.
  void keep_own_end(std::uint64_t actor, const v1::LeaseEnded& message);

  // -- programs: programs.cpp ------------------------------------------------------------------

  void note_start(const WorkerRecord& worker);
  /// Workers that do not come up put their program or their device out of use.
  void note_failed_start(const WorkerRecord& worker);
  void put_out_of_use(const WorkerProgram& program);
  void blame_for_starts(int device);
  void tell_programs();

  // -- devices that fail: faults.cpp -----------------------------------------------------------

  v1::DeviceFault put_out_of_use(const std::vector<int>& devices, const std::string& reason);
  [[nodiscard]] std::optional<v1::LeaseEnded> refuse_failed(const v1::Lease& lease) const;
  void note_loss(int device);

  // -- host memory: memory.cpp -----------------------------------------------------------------

  [[nodiscard]] static MemoryRules rules_of(const AgentOptions& options);
  /// Looks at the memory of workers soon, and again and again while there are any.
  void watch_memory();
  void look_at_memory();
  [[nodiscard]] GuardedWorker guarded(const WorkerRecord& worker, const WorkerMemory& seen) const;
  /// Whether a worker that was ended for its memory is not gone yet, so that this will be there soon.
  [[nodiscard]] bool memory_comes_back() const;
  void tell_if_others_fill(const MemoryLook& look);
  void end_for_memory(WorkerRecord& worker, const std::string& why);

  struct Memory {
    MemoryRules rules{};
    /// A look is due, or on its way.
    bool watched = false;
    /// The memory of a worker that was ended for it has come back since the look was asked for.
    bool stale = false;
    /// The operator knows that others fill the machine.
    bool told = false;
  };

  AgentWorld& world_;
  AgentOptions options_;
  Memory memory_;
  InstanceTable instances_;
  ContactPtr broker_;
  std::uint64_t registration_ = 0;
  /// The number of the registration that the broker refused last.
  std::uint64_t refused_ = 0;
  // The last notice about a refusal, so that it is not repeated.
  std::string said_;
  std::uint64_t last_worker_ = 0;
  // Set once the process is about to end: when the node has to be empty; and whether the broker knows.
  std::optional<TimePoint> leaves_by_;
  bool left_ = false;
  /// Whether the broker has the node registered, on the connection that there is.
  bool accepted_ = false;
  std::map<std::uint64_t, WorkerRecord> workers_;
  std::map<std::string, std::uint64_t> by_key_;
  std::map<LeaseId, LeaseRecord> leases_;
  TaskTotals tasks_;
  // Leases whose latest saved state the broker does not have yet, and whether further saves wait for a tick.
  std::set<LeaseId> fresh_saves_;
  bool saves_wait_ = false;
  // Saved state of actors that ended while the broker was out of reach.
  std::vector<v1::ActorSaved> unsent_saves_;
  // What ended meanwhile unasked: told as held, and right after as ended, so that what may live again does, and others
  // hear why it does not.
  std::vector<EndedAway> ended_away_;
  // Actors that have ended themselves here, the latest last, for a broker that may not know.
  std::deque<v1::OwnEnd> own_ends_;
  /// Of the node's certificate, as its process told last and as the broker was told with the registration.
  std::optional<v1::CertificateLife> certificate_;
  std::optional<v1::CertificateLife> told_certificate_;
  DeviceLosses losses_;
  StartBlame starts_;
  /// How often the programs have changed.
  std::uint64_t generation_ = 0;
};

template <class Message>
AgentCore::LeaseRecord* AgentCore::find(const Message& message) {
  const auto lease = leases_.find(LeaseId{message.lease()});
  const bool known = lease != leases_.end() && lease->second.held.lease().epoch() == message.epoch();
  return known ? &lease->second : nullptr;
}

template <class Message>
void AgentCore::tell_broker(Message message) {
  if (broker_ != nullptr)
    world_.post(broker_, std::move(message));
}

} // namespace gpuactors

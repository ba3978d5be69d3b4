// ProcessAgent: the agent of a node whose tasks and actors run in worker processes below it.
#pragma once

#include <gpuactors/agent/instance_table.hpp>
#include <gpuactors/agent/log_readers.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/messages.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gpuactors {

/// A worker process as an agent wants it.
struct WorkerCommand {
  std::uint64_t number = 0;
  /// For people: "device 0", "actor trainer".
  std::string purpose;
  /// Those that it serves, whole or in part; none for work without a device.
  std::vector<v1::Device> devices;
  /// What it is shown by: set, or removed where there is no value.
  std::map<std::string, std::optional<std::string>> environment;
};

/// Starts and ends worker processes. The agent is sent a `WorkerExited` for each that was started, after it was reaped.
/// Not blocking.
class WorkerLauncher {
public:
  virtual ~WorkerLauncher() = default;
  virtual Result<void> start(const WorkerCommand& command) = 0;
  /// Kills it; no effect when it has ended.
  virtual void kill(std::uint64_t number) = 0;
};

struct ProcessAgentOptions {
  /// What it offers.
  v1::Node node;
  /// The host that workers listen at.
  std::string host;
  /// Where it takes connections of clients, "HOST:PORT". Asked when it registers: the port is known only when it
  /// stands.
  std::function<std::string()> address = [] { return std::string{}; };
  std::shared_ptr<WorkerLauncher> launcher;
  /// What its workers can run.
  v1::TypeCatalog types{};
  /// How its process keeps in touch with others.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// Told who writes what.
  std::shared_ptr<LogSources> sources = std::make_shared<LogSources>();
  /// Reads the node's log for clients, as `LogReaders::read` does; null: it has none.
  std::function<void(const LogQuery&, LogReaders::Done)> read_log{};
  /// Whether CUDA MPS runs on the node now, which holds processes to parts of GPUs (`mps_environment`). Asked for each
  /// worker that is started; must not block.
  std::function<bool()> mps_runs = [] { return false; };
  /// Told what the operator should know: registered, refused, connection lost.
  std::function<void(std::string)> notice = [](const std::string&) {};
  /// The broker has taken the node, the first time or again.
  std::function<void()> registered = [] {};
  /// After a `DrainNode`: nothing runs here any more.
  std::function<void()> emptied = [] {};
};

/// One worker for each device, for the leases on one device; one for work without a device; and one for each lease of
/// several devices, of other accelerators or with `isolated`, which ends with the lease.
///
/// A worker goes: starting -> up -> (ending) -> reaped. What it held is reported as free when it was reaped, not
/// before: its memory is then really free. A worker that does not answer is killed. The broker may come and go: the
/// agent registers again with all that it holds. Event-based; never blocks; never touches a device.
class ProcessAgent : public AgentHandle::base {
public:
  ProcessAgent(caf::actor_config& config, ProcessAgentOptions options);

  AgentHandle::behavior_type make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.agent";
  }

private:
  // What a `Tick` is for, beside registering (none) and workers (their numbers).
  static constexpr std::uint64_t tick_readers = UINT64_MAX;
  static constexpr std::uint64_t tick_saves = UINT64_MAX - 1;

  using Order = std::function<void(const caf::strong_actor_ptr& worker)>;
  using Environment = google::protobuf::Map<std::string, std::string>;

  /// Whether a lease wants a process of its own, and with which variables.
  struct Isolated {
    bool wanted = false;
    const Environment& environment;
  };

  struct WorkerRecord {
    std::uint64_t number = 0;
    std::string key;
    /// Not null: it was started for this lease and ends with it, after what the lease has lent to others.
    LeaseId owner;
    /// It was told or made to end: no more work for it.
    bool ending = false;
    /// A device of it has failed: it ends soon, whatever runs in it.
    bool doomed = false;
    caf::strong_actor_ptr control;
    std::string address;
    std::uint32_t pid = 0;
    /// What it is told when it is up.
    std::vector<Order> orders;
    std::set<LeaseId> leases;
  };

  struct LeaseRecord {
    v1::HeldLease held;
    std::uint64_t worker = 0;
    /// Its holder has ended; to be reported when the worker was reaped.
    std::optional<v1::LeaseEnded> ended;
    /// What its worker told last, for a broker that starts again.
    std::optional<v1::HolderUsage::Entry> usage;
  };

  template <class Message, class... Ins>
  void start(Message order, v1::HeldLease held, const Isolated& isolated, const Ins&... message);
  WorkerRecord& worker_for(const v1::Lease& lease, const Isolated& isolated, const LogSource& source);
  /// @param lease whose process it is; null for one that several share.
  WorkerRecord& start_worker(std::string key, std::vector<v1::Device> devices, const v1::Lease* lease,
                             const Environment& environment, std::string purpose, const LogSource* source);
  void end(const v1::EndLease& order);
  void started(v1::LeaseStarted message);
  void ended(v1::LeaseEnded message);
  void stuck(const v1::LeaseStuck& message);
  caf::result<v1::Done> worker_up(const v1::WorkerHello& message, const caf::strong_actor_ptr& control);
  void worker_lost(std::uint64_t number);
  void worker_exited(const v1::WorkerExited& message);
  void kill_worker(WorkerRecord& worker);

  // -- to the broker: process_agent_reports.cpp ------------------------------------------------

  void link_changed(const caf::strong_actor_ptr& broker);
  /// The process is about to end: the broker is asked to empty the node.
  void leave(const v1::DrainNode& message);
  void tell_that_it_leaves();
  void register_node();
  /// Tells all that is held here. @returns how many leases that are.
  std::uint32_t tell_held();
  void saved(const v1::ActorSaved& message);
  void send_saves();
  void used(const v1::HolderUsage& message);
  void report(v1::LeaseEnded message);

  // -- devices that fail: process_agent_faults.cpp ---------------------------------------------

  void device_failed(const v1::DeviceFault& message);
  void device_used(v1::DeviceUse message);
  v1::DeviceFault put_out_of_use(const std::vector<int>& devices, const std::string& reason);
  [[nodiscard]] std::optional<v1::LeaseEnded> refuse_failed(const v1::Lease& lease) const;
  void note_loss(int device);

  // -- logs: process_agent_log.cpp -------------------------------------------------------------

  caf::result<v1::LogLines> read_log(const v1::ReadLog& message);
  void answer_readers();

  ProcessAgentOptions options_;
  const std::uint64_t id_;
  InstanceTable instances_;
  caf::strong_actor_ptr broker_;
  std::uint64_t registration_ = 0;
  /// The one that the broker did not take.
  std::uint64_t refused_ = 0;
  // Why the broker did not take the node, as it was told last.
  std::string said_;
  std::uint64_t last_worker_ = 0;
  // By when the node has to be empty, once its process is about to end, and whether the broker knows.
  std::optional<TimePoint> leaves_by_;
  bool left_ = false;
  std::map<std::uint64_t, WorkerRecord> workers_;
  std::map<std::string, std::uint64_t> by_key_;
  std::map<LeaseId, LeaseRecord> leases_;
  // Whose saves the broker has not heard of yet, and whether the next ones wait for a tick.
  std::set<LeaseId> fresh_saves_;
  bool saves_wait_ = false;
  // The last words of actors that ended while the broker was out of reach.
  std::vector<v1::ActorSaved> unsent_saves_;
  // When sticky errors lost a device to its process.
  std::map<int, std::deque<TimePoint>> losses_;
  // Those who read the log and wait, by the tickets of their answers.
  std::map<std::uint64_t, caf::typed_response_promise<v1::LogLines>> readers_;
  std::uint64_t last_reader_ = 0;
  // Answers for them that are ready, from the log's threads.
  struct LogAnswers {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, Result<LogAnswer>>> ready;
  };
  std::shared_ptr<LogAnswers> answers_ = std::make_shared<LogAnswers>();
};

} // namespace gpuactors

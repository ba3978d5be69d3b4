// ProcessAgent: the agent of a node whose tasks and actors run in worker processes below it.
#pragma once

#include <gpuactors/agent/instance_table.hpp>
#include <gpuactors/agent/log_readers.hpp>
#include <gpuactors/agent/usage.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/guarded.hpp>

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

/// A worker process that an agent wants started.
struct WorkerCommand {
  std::uint64_t number = 0;
  /// For display: "device 0", "actor trainer".
  std::string purpose;
  /// The devices that the worker serves, whole or in part; none for work without a device.
  std::vector<v1::Device> devices;
  /// The worker's environment, for example which devices it sees; a variable without a value is removed.
  std::map<std::string, std::optional<std::string>> environment;
};

/// Starts and ends worker processes. The agent gets a `WorkerExited` for each started process after it was reaped.
/// Never blocks.
class WorkerLauncher {
public:
  virtual ~WorkerLauncher() = default;
  virtual Result<void> start(const WorkerCommand& command) = 0;
  /// Kills a worker; no effect when it has ended.
  virtual void kill(std::uint64_t number) = 0;
};

struct ProcessAgentOptions {
  /// What the node offers.
  v1::Node node;
  /// The process's connections, which tell who sends; null: everybody may give orders.
  std::shared_ptr<const Lanes> lanes{};
  /// The host that workers listen at.
  std::string host;
  /// The agent's address for clients, "HOST:PORT". Called at each registration: the port is known only once it is open.
  std::function<std::string()> address = [] { return std::string{}; };
  std::shared_ptr<WorkerLauncher> launcher;
  /// Types of tasks and actors that the workers can run.
  v1::TypeCatalog types{};
  /// Heartbeat interval and link timeout of the agent's process.
  Duration heartbeat = limits::heartbeat;
  Duration link_timeout = limits::link_timeout;
  /// Gets the sources of workers' output.
  std::shared_ptr<LogSources> sources = std::make_shared<LogSources>();
  /// Reads the node's log for clients, like `LogReaders::read`; null: the node has no log.
  std::function<void(const LogQuery&, LogReaders::Done)> read_log{};
  /// Whether CUDA MPS runs on the node now, which can limit processes to parts of GPUs (`mps_environment`). Called when
  /// a worker for one lease is started; must not block.
  std::function<bool()> mps_runs = [] { return false; };
  /// Gets messages for the operator: registered, refused, connection lost.
  std::function<void(std::string)> notice = [](const std::string&) {};
  /// Called whenever the broker has accepted the node.
  std::function<void()> registered = [] {};
  /// Called after a `DrainNode` once nothing runs here any more.
  std::function<void()> emptied = [] {};
  /// Called after a `Goodbye` once the broker knows that the node is stopped, or cannot be told.
  std::function<void()> parted = [] {};
};

/// Runs one worker for each device, for the leases on that device alone; one for work without a device; and one for
/// each lease with several devices, with other accelerators or with `isolated`, which ends with the lease.
///
/// States of a worker: starting -> up -> (ending) -> reaped. The leases of an ending worker are reported as ended only
/// after it was reaped: only then is their memory really free. A worker that does not answer is killed. The broker may
/// restart or be out of reach: the agent then registers again with all its leases. Event-based; never blocks; never
/// touches a device.
class ProcessAgent : public Guarded<AgentHandle::base, AgentFromClients> {
public:
  /// What it reminds itself of, by a `Tick`.
  enum class Due : std::uint8_t {
    registration,
    /// A worker should have come up.
    worker_start,
    /// A worker with a failed device should have ended.
    worker_end,
    log_readers,
    saves,
  };

  ProcessAgent(caf::actor_config& config, ProcessAgentOptions options);

  AgentHandle::behavior_type make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.agent";
  }

private:
  using Order = std::function<void(const caf::strong_actor_ptr& worker)>;
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
    /// The worker is being ended and gets no more work.
    bool ending = false;
    caf::strong_actor_ptr control;
    std::string address;
    std::uint32_t pid = 0;
    /// Orders to send once the worker is up.
    std::vector<Order> orders;
    std::set<LeaseId> leases;
  };

  struct LeaseRecord {
    v1::HeldLease held;
    std::uint64_t worker = 0;
    /// Set when the holder has ended and the report waits until the worker is reaped.
    std::optional<v1::LeaseEnded> ended;
    /// The worker's latest usage report, for a broker that restarts.
    std::optional<v1::HolderUsage::Entry> usage;
  };

  template <class Message, class... Ins>
  void start(Message order, v1::HeldLease held, const Isolated& isolated, const Ins&... message);
  WorkerRecord& worker_for(const v1::Lease& lease, const Isolated& isolated, const LogSource& source);
  /// @param lease the lease that the process belongs to; null for a shared process.
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
  /// The process is about to end: asks the broker to empty the node.
  void leave(const v1::DrainNode& message);
  void tell_that_it_leaves();
  /// The process ends now: tells the broker that this is no accident.
  void say_goodbye();
  void register_node();
  /// Sends the broker all leases that are held here. @returns their number.
  std::uint32_t tell_held();
  void saved(const v1::ActorSaved& message);
  void send_saves();
  void used(const v1::HolderUsage& message);
  void tasks_done(const v1::HolderUsage& message);
  void report_tasks();
  void report(v1::LeaseEnded message);
  /// Keeps the end of an actor that has ended itself, to be repeated at each registration.
  void keep_own_end(std::uint64_t actor, const v1::LeaseEnded& message);

  // -- devices that fail: process_agent_faults.cpp ---------------------------------------------

  void device_failed(const v1::DeviceFault& message);
  void device_used(v1::DeviceUse message);
  v1::DeviceFault put_out_of_use(const std::vector<int>& devices, const std::string& reason);
  [[nodiscard]] std::optional<v1::LeaseEnded> refuse_failed(const v1::Lease& lease) const;
  void note_loss(int device);

  // -- logs: process_agent_log.cpp -------------------------------------------------------------

  /// Calls `due` after a while, for the worker of this number, if it is about one.
  void remind(Duration after, Due what, std::uint64_t worker = 0);
  void due(Due what, std::uint64_t worker);

  caf::result<v1::LogLines> read_log(const v1::ReadLog& message);
  void answer_readers();

  ProcessAgentOptions options_;
  const std::uint64_t id_;
  InstanceTable instances_;
  caf::strong_actor_ptr broker_;
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
  // Actors that have ended themselves here, the latest last, for a broker that may not know.
  std::deque<v1::OwnEnd> own_ends_;
  // By device: when sticky errors cost a worker process the device.
  std::map<int, std::deque<TimePoint>> losses_;
  // Pending answers to readers of the log, by ticket.
  std::map<std::uint64_t, caf::typed_response_promise<v1::LogLines>> readers_;
  std::uint64_t last_reader_ = 0;
  // Completed answers for the readers, from the log's threads.
  struct LogAnswers {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, Result<LogAnswer>>> ready;
  };
  std::shared_ptr<LogAnswers> answers_ = std::make_shared<LogAnswers>();
};

} // namespace gpuactors

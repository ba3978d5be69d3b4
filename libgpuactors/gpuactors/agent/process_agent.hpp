// ProcessAgent: the agent of a node whose tasks and actors run in worker processes below it.
#pragma once

#include <gpuactors/agent/core/agent_core.hpp>
#include <gpuactors/agent/log_readers.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/guarded.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors {

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
  AgentOptions agent{};
  /// The process's connections, which tell who sends; null: everybody may give orders.
  std::shared_ptr<const Lanes> lanes{};
  /// The agent's address for clients, "HOST:PORT". Called at each registration: the port is known only once it is open.
  std::function<std::string()> address = [] { return std::string{}; };
  std::shared_ptr<WorkerLauncher> launcher;
  /// Gets the sources of workers' output.
  std::shared_ptr<LogSources> sources = std::make_shared<LogSources>();
  /// Reads the node's log for clients, like `LogReaders::read`; null: the node has no log.
  std::function<void(const LogQuery&, LogReaders::Done)> read_log{};
  /// Whether CUDA MPS runs on the node now, which can limit processes to parts of GPUs (`mps_environment`). Called when
  /// a worker for one lease is started; must not block.
  std::function<bool()> mps_runs = [] { return false; };
  /// Looks at the memory of workers without blocking, and calls the function with what it sees, on any thread; null:
  /// the node does not guard its memory.
  std::function<void(MemoryQuery, std::function<void(MemoryLook)>)> look_at_memory{};
  /// Gets messages for the operator: registered, refused, connection lost.
  std::function<void(std::string)> notice = [](const std::string&) {};
  /// Called whenever the broker has accepted the node, and when that one is out of reach.
  std::function<void()> registered = [] {};
  std::function<void()> unregistered = [] {};
  /// Called after a `DrainNode` once nothing runs here any more.
  std::function<void()> emptied = [] {};
  /// Called after a `Goodbye` once the broker knows that the node is stopped, or cannot be told.
  std::function<void()> parted = [] {};
  /// The broker does not serve: another one is to be looked for.
  std::function<void(const Error&)> look_elsewhere = [](const Error&) {};
};

/// Passes messages to an `AgentCore`, which decides, and clients' questions to the node's log. Event-based; never
/// blocks; never touches a device.
class ProcessAgent : public Guarded<AgentHandle::base, AgentFromClients> {
public:
  ProcessAgent(caf::actor_config& config, ProcessAgentOptions options);
  ~ProcessAgent() override;

  AgentHandle::behavior_type make_behavior() override;
  void on_exit() override;

  const char* name() const override {
    return "gpuactors.agent";
  }

private:
  class World;

  caf::result<v1::LogLines> read_log(const v1::ReadLog& message);
  void answer_readers();
  void change_programs(const v1::NodePrograms& message);
  void take_look();

  ProcessAgentOptions options_;
  std::unique_ptr<World> world_;
  std::unique_ptr<AgentCore> core_;
  // Pending answers to readers of the log, by ticket.
  std::map<std::uint64_t, caf::typed_response_promise<v1::LogLines>> readers_;
  std::uint64_t last_reader_ = 0;
  // Completed answers for the readers, from the log's threads.
  struct LogAnswers {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, Result<LogAnswer>>> ready;
  };
  std::shared_ptr<LogAnswers> answers_ = std::make_shared<LogAnswers>();
  // What was seen last, from the watch's thread.
  struct MemoryLooks {
    std::mutex mutex;
    std::optional<MemoryLook> latest;
  };
  std::shared_ptr<MemoryLooks> looks_ = std::make_shared<MemoryLooks>();
};

} // namespace gpuactors

// NodePart: the node of a daemon. Internal to the cluster layer.
#pragma once

#include <gpuactors/agent/memory_watch.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/detail/certificate_watch.hpp>
#include <gpuactors/cluster/detail/control_failure.hpp>
#include <gpuactors/cluster/detail/daemon_core.hpp>
#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/cluster/detail/launcher.hpp>
#include <gpuactors/cluster/detail/node_log.hpp>
#include <gpuactors/cluster/detail/renew_signal.hpp>
#include <gpuactors/cluster/detail/renewer.hpp>
#include <gpuactors/cluster/detail/termination.hpp>

namespace gpuactors::detail {

/// An agent in this process, with its workers and its connection to the broker.
class NodePart {
public:
  NodePart();
  NodePart(const NodePart&) = delete;
  NodePart& operator=(const NodePart&) = delete;
  /// Kills the workers.
  ~NodePart();

  /// Starts the agent and opens its ports. The node registers by itself, as soon as the broker answers.
  /// @param broker where workers find the broker.
  /// @param local the broker, if it is in this process; otherwise null, and the agent connects to `broker`.
  Result<void> start(DaemonCore& core, const NodeDaemon& options, const std::vector<Endpoint>& broker,
                     const DaemonOptions& daemon, const caf::strong_actor_ptr& local = {});

  /// Waits until the broker has accepted the node, at most `limits::link_timeout`.
  /// @returns false if a signal ended the wait.
  bool await_registration(Termination& termination) const;

  /// Waits for a signal to end, and starts the programs anew at each SIGUSR1 until then.
  void serve(Termination& termination, RenewSignal& renewals);

  /// Moves or ends the node's work within the grace, if there is one. Another signal ends that wait.
  void empty(Termination& termination) const;

  /// Tells the broker that the node is stopped: without it, the cluster's operators would be told that it was lost.
  /// Waits only a moment for the answer.
  void say_goodbye() const;

  /// The agent.
  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return agent_;
  }

  /// The error with which the agent has ended by itself, if it has.
  [[nodiscard]] Result<void> failure() const {
    return failure_.result();
  }

private:
  struct LateLauncher;
  struct Line;
  struct Offer;

  /// Asks each program, in a process of its own, which devices it sees and which types it has. Blocks, until it is
  /// given up.
  [[nodiscard]] Result<Offer> look_at_programs(const std::atomic<bool>* given_up) const;
  void renew_programs(const std::atomic<bool>& given_up) const;

  /// Has the agent look at the memory of its workers.
  Result<void> guard_memory(const NodeDaemon& options, ProcessAgentOptions& setup);

  /// The part of the agent's options that does not depend on what the node offers.
  [[nodiscard]] ProcessAgentOptions agent_options(const Links& links) const;
  /// Connects the agent to the broker, again whenever the connection is lost.
  void dial(Links& links, const std::vector<Endpoint>& broker);

  /// Behind the launcher at its end: a look may wait for a process that is stuck, until that is killed.
  std::shared_ptr<MemoryWatch> memory_;
  std::shared_ptr<Launcher> launcher_;
  DeviceWatch watch_;
  std::shared_ptr<Redial> redial_;
  /// What the agent's thread knows of it.
  std::shared_ptr<Line> line_;
  using Flag = std::shared_ptr<FutureState<void>>;
  Flag registered_ = std::make_shared<FutureState<void>>();
  Flag emptied_ = std::make_shared<FutureState<void>>();
  Flag parted_ = std::make_shared<FutureState<void>>();
  ControlFailure failure_;
  std::optional<CertificateWatch> certificate_;
  caf::strong_actor_ptr agent_;
  std::string name_;
  /// As its options have them.
  std::string devices_;
  std::vector<std::string> programs_;
  std::vector<std::string> plugins_;
  Duration stop_grace_{};
  std::function<void(std::string_view)> notice_;
  std::function<void()> on_registered_;
  std::function<void()> on_unregistered_;
};

} // namespace gpuactors::detail

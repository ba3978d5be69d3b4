// AgentWorld: what the agent's core needs from outside. The actor implements it with CAF, processes and the real clock,
// the simulation with its own.
#pragma once

#include <gpuactors/agent/core/memory_look.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/contact.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/payload.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors {

/// A worker process that an agent wants started.
struct WorkerCommand {
  std::uint64_t number = 0;
  /// For display: "device 0", "actor trainer".
  std::string purpose;
  /// The program that it runs, by its number in `ProgramTable`.
  std::size_t program = 0;
  /// The devices that the worker serves, whole or in part; none for work without a device.
  std::vector<v1::Device> devices;
  /// The worker's environment, for example which devices it sees; a variable without a value is removed.
  std::map<std::string, std::optional<std::string>> environment;
};

/// Reasons for which the core has itself woken.
enum class AgentWake : std::uint8_t {
  /// A refused registration is to be tried again.
  registration,
  /// A worker should have come up.
  worker_start,
  /// A worker with a failed device should have ended.
  worker_end,
  /// A worker could not be started.
  worker_failed,
  /// The connection to a worker that has exited should have been lost.
  worker_exit,
  /// A holder that was told to end should have ended.
  lease_end,
  /// State that actors have saved meanwhile is to be sent.
  saves,
  /// It is time to look at the memory of workers.
  memory,
};

/// The broker's answer to a request; nothing if the connection was lost before.
using BrokerReply = std::function<void(const std::optional<Result<void>>&)>;

/// The core's surroundings. Used on the core's thread only. Nothing here calls the core back within the call.
class AgentWorld {
public:
  AgentWorld() = default;
  AgentWorld(const AgentWorld&) = delete;
  AgentWorld& operator=(const AgentWorld&) = delete;
  virtual ~AgentWorld() = default;

  /// Monotonic time.
  [[nodiscard]] virtual TimePoint now() const = 0;

  /// Nanoseconds since 1970, by the clock that stamps the lines of workers.
  [[nodiscard]] virtual std::int64_t unix_ns() const = 0;

  /// Has `AgentCore::wake(what, about)` called after `after`. `about`: the number of a worker, or the id of a lease.
  virtual void wake(Duration after, AgentWake what, std::uint64_t about) = 0;

  // -- the broker: what is sent arrives in order, or not at all when the connection is lost ------

  virtual void post(const ContactPtr& broker, v1::HeldAhead message) = 0;
  virtual void post(const ContactPtr& broker, v1::LeaseStarted message) = 0;
  virtual void post(const ContactPtr& broker, v1::LeaseEnded message) = 0;
  virtual void post(const ContactPtr& broker, v1::ActorSaved message) = 0;
  virtual void post(const ContactPtr& broker, v1::HolderUsage message) = 0;
  virtual void post(const ContactPtr& broker, v1::DeviceFault message) = 0;
  virtual void post(const ContactPtr& broker, v1::DeviceUse message) = 0;
  virtual void post(const ContactPtr& broker, v1::NodePrograms message) = 0;
  virtual void ask(const ContactPtr& broker, v1::RegisterNode message, BrokerReply reply) = 0;
  virtual void ask(const ContactPtr& broker, v1::DrainNode message, BrokerReply reply) = 0;
  virtual void ask(const ContactPtr& broker, v1::Goodbye message, BrokerReply reply) = 0;

  // -- workers: likewise -------------------------------------------------------------------------

  /// Starts a worker process, which calls `AgentCore::worker_up`. `AgentCore::worker_exited` is called once it has
  /// ended and was reaped. Lines that it writes belong to `owner`, its one lease, or to nobody if that is null.
  virtual Result<void> start(const WorkerCommand& command, const v1::HeldLease* owner) = 0;
  /// Kills a worker process; no effect when it has ended.
  virtual void kill(std::uint64_t worker) = 0;
  /// Has `AgentCore::worker_lost(worker)` called once when the connection to `contact` is lost.
  virtual void watch(const ContactPtr& contact, std::uint64_t worker) = 0;
  virtual void order(const ContactPtr& worker, const v1::StartRunner& order) = 0;
  virtual void order(const ContactPtr& worker, const v1::StartActor& order, const Payload& config) = 0;
  virtual void order(const ContactPtr& worker, const v1::EndLease& order) = 0;
  virtual void order(const ContactPtr& worker, const v1::DeviceFault& order) = 0;
  virtual void order(const ContactPtr& worker, const v1::EndProcess& order) = 0;

  /// Has `AgentCore::memory_seen` called with what these processes use.
  virtual void look_at_memory(MemoryQuery query) = 0;

  /// Whether CUDA MPS runs on the node now, which can limit processes to parts of GPUs.
  [[nodiscard]] virtual bool mps_runs() const = 0;

  // -- the log: whose lines are whose ------------------------------------------------------------

  /// A holder is about to start in a worker, and no line of it is older than `since_ns`.
  virtual void holder_begins(std::uint64_t worker, const v1::HeldLease& held, std::int64_t since_ns) = 0;
  virtual void holder_ended(std::uint64_t worker, std::uint64_t lease) = 0;
  virtual void worker_ended(std::uint64_t worker) = 0;

  // -- the node's process ------------------------------------------------------------------------

  /// The agent's address for clients, "HOST:PORT".
  [[nodiscard]] virtual std::string address() const = 0;
  /// A message for the operator.
  virtual void notice(std::string text) = 0;
  /// The broker has accepted the node.
  virtual void registered() = 0;
  /// The broker that had accepted it is out of reach, or has been replaced by another one.
  virtual void unregistered() = 0;
  /// The broker does not serve: another one is to be looked for.
  virtual void look_elsewhere(const Error& why) = 0;
  /// After `AgentCore::leave`: nothing runs here any more.
  virtual void emptied() = 0;
  /// After `AgentCore::say_goodbye`: the broker knows that the node is stopped, or cannot be told.
  virtual void parted() = 0;
};

} // namespace gpuactors

// ClusterCore: the state behind Cluster, ActorRef and futures. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/services.hpp>
#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/cluster/detail/requests.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/cluster/options.hpp>
#include <gpuactors/wire/own_threads.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace gpuactors::detail {

class ActorEnds;
class AgentWatches;

/// The actor system with the client's parts: request port, callback thread, task dispatcher; in an embedded cluster
/// also broker and agents, otherwise the connections to them.
///
/// Lifecycle: embed or connect -> used from any thread -> shutdown by the owner, which waits until all tasks and actors
/// in this process have ended; afterwards all requests fail with `unavailable`.
class ClusterCore : public ClusterLink, public std::enable_shared_from_this<ClusterCore> {
public:
  static Result<std::shared_ptr<ClusterCore>> embed(EmbedOptions options);

  /// @param on_system is called once the actor system runs, before the broker is dialled: a worker starts its own
  ///        actors there.
  static Result<std::shared_ptr<ClusterCore>> connect(const ConnectOptions& options,
                                                      const std::function<Result<void>(ClusterCore&)>& on_system = {});

  ~ClusterCore() override;

  void shutdown();

  [[nodiscard]] RequestPort& port() noexcept {
    return *port_;
  }

  /// Null when the cluster is embedded.
  [[nodiscard]] Links* links() const noexcept {
    return links_.get();
  }

  /// After which time a spawn says what it waits for; zero: never.
  [[nodiscard]] Duration spawn_notice() const noexcept {
    return spawn_notice_;
  }

  /// Tells whoever runs the program, as the options of the cluster say.
  void notice(std::string_view line) const noexcept;

  [[nodiscard]] bool closed() const noexcept {
    return closed_.load(std::memory_order_acquire);
  }

  [[nodiscard]] WorkerLinks* workers() const noexcept {
    return workers_.get();
  }

  /// The id by which the broker knows this client.
  [[nodiscard]] std::uint64_t client() const noexcept {
    return client_;
  }

  /// Whether tasks and actors run in other processes, whose types need not be known here.
  [[nodiscard]] bool connected() const noexcept {
    return links_ != nullptr;
  }

  [[nodiscard]] const TypeRegistry& registry() const noexcept {
    return *registry_;
  }

  [[nodiscard]] const std::shared_ptr<Executor>& executor() const noexcept {
    return executor_;
  }

  /// Null after shutdown.
  [[nodiscard]] TaskDispatcher* dispatcher() const noexcept {
    return closed_.load(std::memory_order_acquire) ? nullptr : dispatcher_.get();
  }

  /// Sends the broker a request; fails with `unavailable` after shutdown, and with the errors of `check_request`.
  template <class T, class... Ts>
  void ask_broker(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, T&& message, Ts&&... xs) {
    if (auto checked = check_request(message); !checked)
      return reply->on_error(checked.error());
    broker_link_->ask(reply, deadline, std::forward<T>(message), std::forward<Ts>(xs)...);
  }

  /// Looks an actor up: `reply` gets it once it lives, or why it does not until `deadline`.
  void ask_for_actor(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, v1::FindActor message);

  /// The next number for a request that the broker must recognize when it is repeated.
  [[nodiscard]] std::uint64_t next_request() noexcept {
    return last_request_.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  /// A task of this process spawns something that is to end with it.
  void note_spawner(LeaseId lease, std::uint64_t run);
  void task_ended(LeaseId lease, std::uint64_t run) noexcept override;

  /// Fills in the services that tasks and actors of this process share: types, quotas, tensors, threads and this
  /// cluster.
  void fill(ProcessServices& services);

  /// Finds an actor from the broker's answer: `told` if the broker knew the handles, otherwise what the actor's own
  /// worker answers. `done` is called once, on any thread.
  void locate(const v1::ActorInfo& info, HolderHandles told, WorkerLinks::OnFound done);

  /// Returns the count of this program's calls that wait for the actor.
  [[nodiscard]] std::shared_ptr<std::atomic<std::size_t>> pending_of(ActorId id);

  /// Records where an actor is now, and watches it so that its calls fail when it ends.
  void set_life(ActorCell& cell, const v1::ActorInfo& info, const HolderHandles& handles);

  [[nodiscard]] ActorEnds& ends() noexcept {
    return *ends_;
  }

  [[nodiscard]] AgentWatches& agent_watches() noexcept {
    return *agent_watches_;
  }

  [[nodiscard]] const std::shared_ptr<TensorStore>& tensors() const noexcept {
    return tensors_;
  }

  [[nodiscard]] caf::actor_system& system() noexcept {
    return *system_;
  }

private:
  struct Config;

  ClusterCore();
  Result<void> start(EmbedOptions options);
  Result<void> start(const ConnectOptions& options, const std::function<Result<void>(ClusterCore&)>& on_system);
  Result<void> open(std::shared_ptr<const TypeRegistry> registry, const std::optional<LinkOptions>& links);
  /// Adds a cell to those of an address. @returns whether the address is not watched yet.
  bool add_cell(const caf::actor_addr& address, ActorCell& cell);
  /// Marks the cells of an address as down: the actor there has ended.
  void mark_down(const caf::actor_addr& address, bool lost);
  void release_cells();
  void say_goodbye();
  void await_holders();
  Result<void> add_node(const EmbeddedNode& node);

  std::shared_ptr<const TypeRegistry> registry_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<TensorStore> tensors_;
  std::shared_ptr<QuotaTable> quotas_;
  std::shared_ptr<HolderTable> holders_;
  /// How the end of the cluster says what it waits for: as in `EmbedOptions`.
  Duration close_notice_{};
  Duration spawn_notice_{};
  std::function<void(std::string_view)> notice_;
  std::shared_ptr<ActorEnds> ends_;
  std::shared_ptr<AgentWatches> agent_watches_;
  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
  // How many detached actors the system itself has.
  std::size_t system_threads_ = 0;
  std::shared_ptr<OwnThreads> threads_ = std::make_shared<OwnThreads>();
  caf::strong_actor_ptr broker_;
  std::vector<caf::strong_actor_ptr> agents_;
  // Watches that report faults and utilization of devices to the agents.
  std::vector<DeviceWatch> watches_;
  std::unique_ptr<RequestPort> port_;
  std::uint64_t client_ = 0;
  /// The grace that the broker is asked for if the connection is lost; 0: none.
  std::uint64_t reconnect_grace_ms_ = 0;
  std::atomic<std::uint64_t> last_request_{0};
  std::unique_ptr<Links> links_;
  std::shared_ptr<BrokerLink> broker_link_;
  std::shared_ptr<WorkerLinks> workers_;
  std::shared_ptr<TaskDispatcher> dispatcher_;
  // Cells of the actors that this program has handles to, by address: each actor is watched once, however often it was
  // looked up. Shutdown clears the handles, since CAF waits for them.
  std::mutex cells_mutex_;
  std::unordered_map<caf::actor_addr, std::vector<std::weak_ptr<ActorCell>>> cells_;
  std::size_t cells_count_ = 0;
  std::size_t cells_prune_at_ = 64;
  // How many calls of this program wait for each actor. Guarded by the same mutex.
  std::unordered_map<ActorId, std::weak_ptr<std::atomic<std::size_t>>> pending_;
  std::size_t pending_prune_at_ = 64;
  // Tasks that have spawned something and have not ended yet.
  std::mutex spawners_mutex_;
  std::set<std::pair<LeaseId, std::uint64_t>> spawners_;
  std::atomic<bool> closed_{false};
  std::once_flag shutdown_once_;
};

} // namespace gpuactors::detail

// ClusterCore: what stands behind Cluster, ActorRef and futures. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/services.hpp>
#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/cluster/detail/device_watch.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/cluster/detail/worker_links.hpp>
#include <gpuactors/cluster/options.hpp>
#include <gpuactors/wire/own_threads.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// The actor system with this program's own ends: request port, callback thread, task dispatcher; in an embedded
/// cluster also broker and agents, otherwise the connections to them.
///
/// Lifecycle: embed or connect -> used from any thread -> shutdown, by the owner, which waits for all tasks and actors
/// that run in this process to end; afterwards everything asked of it fails with `unavailable`.
class ClusterCore : public ClusterLink, public std::enable_shared_from_this<ClusterCore> {
public:
  static Result<std::shared_ptr<ClusterCore>> embed(EmbedOptions options);

  /// @param on_system is called when the actor system stands, before the broker is dialled: a worker starts its own
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

  /// Null when the cluster is embedded.
  [[nodiscard]] WorkerLinks* workers() const noexcept {
    return workers_.get();
  }

  /// The number by which the broker knows this client.
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

  /// Asks the broker; fails with `unavailable` after shutdown, and with `invalid_argument` for a message that could not
  /// be read there.
  template <class T, class... Ts>
  void ask_broker(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, T&& message, Ts&&... xs) {
    if (auto checked = check_texts(message); !checked)
      return reply->on_error(checked.error());
    broker_link_->ask(reply, deadline, std::forward<T>(message), std::forward<Ts>(xs)...);
  }

  /// The next number for a request that the broker must know again when it is asked twice.
  [[nodiscard]] std::uint64_t next_request() noexcept {
    return last_request_.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  /// Fills in what the tasks and actors of this process share: types, quotas, tensors, the way back here.
  void fill(ProcessServices& services);

  /// From the broker's answer to where an actor is: its handles if they came along, else what its own process says.
  /// `done` is called once, on any thread.
  void locate(const v1::ActorInfo& info, Place place, WorkerLinks::OnFound done);

  /// Enters where an actor is now, and has its calls fail when it ends.
  void set_place(ActorCell& cell, const v1::ActorInfo& info, const Place& place);

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
  /// Enters a cell among those of a place. @returns whether nobody watches the place yet.
  bool add_cell(const caf::actor_addr& address, ActorCell& cell);
  /// The actor there has ended.
  void mark_down(const caf::actor_addr& address);
  void release_cells();
  void say_goodbye();
  void await_holders();
  Result<void> add_node(const EmbeddedNode& node);

  std::shared_ptr<const TypeRegistry> registry_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<TensorStore> tensors_;
  std::shared_ptr<QuotaTable> quotas_;
  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
  // Detached actors of the system itself.
  std::size_t system_threads_ = 0;
  std::shared_ptr<OwnThreads> threads_ = std::make_shared<OwnThreads>();
  caf::strong_actor_ptr broker_;
  std::vector<caf::strong_actor_ptr> agents_;
  // What tells the agents of devices that fail.
  std::vector<DeviceWatch> watches_;
  std::unique_ptr<RequestPort> port_;
  std::uint64_t client_ = 0;
  /// Asked of the broker, in case the connection is lost; 0: none.
  std::uint64_t reconnect_grace_ms_ = 0;
  std::atomic<std::uint64_t> last_request_{0};
  std::unique_ptr<Links> links_;
  std::shared_ptr<BrokerLink> broker_link_;
  std::shared_ptr<WorkerLinks> workers_;
  std::shared_ptr<TaskDispatcher> dispatcher_;
  // The actors that this program has handles of, by where they are: each is watched once, however often it was looked
  // up. At shutdown the handles let go, as CAF waits for them.
  std::mutex cells_mutex_;
  std::unordered_map<caf::actor_addr, std::vector<std::weak_ptr<ActorCell>>> cells_;
  std::size_t cells_count_ = 0;
  std::size_t cells_prune_at_ = 64;
  std::atomic<bool> closed_{false};
  std::once_flag shutdown_once_;
};

Result<void> check_types(std::string_view what, const std::string& name, const google::protobuf::Descriptor* takes,
                         const google::protobuf::Descriptor* gives, bool streamed, const Payload& input,
                         const google::protobuf::Descriptor* output, bool stream);

/// Checks the message types of a call against what the task or method takes and gives. `what` names it in the text; a
/// null `output` means any.
template <class Type>
Result<void> check_call(std::string_view what, const Type& type, const Payload& input,
                        const google::protobuf::Descriptor* output, bool stream) {
  return check_types(what, type.name, type.input, type.output, type.streamed, input, output, stream);
}

/// Registers the library's message types with CAF; once a process, before any configuration.
void init_message_types();

/// Reads how this process talks to others: with the certificates of a folder (empty: the user's own), which are
/// checked, and made where `make` says so; or in plaintext.
[[nodiscard]] Result<LinkOptions> link_options(const std::string& certificates, bool insecure, bool make);

/// A positive duration in whole milliseconds, at least 1.
[[nodiscard]] std::uint64_t to_milliseconds(Duration duration) noexcept;

/// Reads options into a resource request.
/// @returns `invalid_argument` with the rule that is broken (G5).
[[nodiscard]] Result<v1::ResourceRequest> to_request(const Options& options, const Needs& needs,
                                                     const std::string& default_name);

} // namespace gpuactors::detail

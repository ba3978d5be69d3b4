// ClusterCore: what stands behind Cluster, ActorRef and futures. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/services.hpp>
#include <gpuactors/cluster/detail/task_dispatcher.hpp>
#include <gpuactors/cluster/options.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// The actor system with broker, agents and this program's own ends: request port, callback thread, task dispatcher.
///
/// Lifecycle: embed -> used from any thread -> shutdown, by the owner, which waits for all tasks and actors to end;
/// afterwards everything asked of it fails with `unavailable`.
class ClusterCore : public ClusterLink, public std::enable_shared_from_this<ClusterCore> {
public:
  static Result<std::shared_ptr<ClusterCore>> embed(EmbedOptions options);

  ~ClusterCore() override;

  void shutdown();

  [[nodiscard]] RequestPort& port() noexcept {
    return *port_;
  }

  [[nodiscard]] const caf::strong_actor_ptr& broker() const noexcept {
    return broker_;
  }

  [[nodiscard]] const TypeRegistry& registry() const noexcept {
    return *registry_;
  }

  [[nodiscard]] const std::shared_ptr<Executor>& executor() const noexcept {
    return executor_;
  }

  /// Null after shutdown.
  [[nodiscard]] std::shared_ptr<TaskDispatcher> dispatcher() const {
    return dispatcher_;
  }

  /// Asks the broker; fails with `unavailable` after shutdown.
  template <class... Ts>
  void ask_broker(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, Ts&&... xs) {
    port_->ask(reply, broker_, deadline, std::forward<Ts>(xs)...);
  }

  /// Enters where an actor is now, and has its calls fail when it ends.
  void set_place(ActorCell& cell, const v1::ActorInfo& info, const caf::strong_actor_ptr& handle,
                 const caf::strong_actor_ptr& control);

  [[nodiscard]] const std::shared_ptr<TensorStore>& tensors() const noexcept {
    return tensors_;
  }

  /// Runs `use` with the context that this program's own tensors live in (host memory). One at a time.
  template <class F>
  auto with_client_memory(F&& use) {
    const std::lock_guard lock{memory_mutex_};
    return use(memory_->stream());
  }

  [[nodiscard]] caf::actor_system& system() noexcept {
    return *system_;
  }

private:
  struct Config;

  ClusterCore();
  Result<void> start(EmbedOptions options);
  void release_cells();
  Result<void> add_node(const EmbeddedNode& node);

  std::shared_ptr<const TypeRegistry> registry_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<TensorStore> tensors_;
  std::shared_ptr<QuotaTable> quotas_;
  std::unique_ptr<Config> config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::strong_actor_ptr broker_;
  std::vector<caf::strong_actor_ptr> agents_;
  std::unique_ptr<RequestPort> port_;
  std::shared_ptr<TaskDispatcher> dispatcher_;
  std::mutex memory_mutex_;
  std::unique_ptr<Context> memory_;
  // The actors that this program has handles of; at shutdown the handles let go, as CAF waits for them.
  std::mutex cells_mutex_;
  std::vector<std::weak_ptr<ActorCell>> cells_;
  std::size_t cells_prune_at_ = 64;
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

/// A positive duration in whole milliseconds, at least 1.
[[nodiscard]] std::uint64_t to_milliseconds(Duration duration) noexcept;

/// Reads options into a resource request.
/// @returns `invalid_argument` with the rule that is broken (G5).
[[nodiscard]] Result<v1::ResourceRequest> to_request(const Options& options, const Needs& needs,
                                                     const std::string& default_name);

} // namespace gpuactors::detail

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

  [[nodiscard]] TaskDispatcher& dispatcher() noexcept {
    return *dispatcher_;
  }

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
  std::once_flag shutdown_once_;
};

/// A future that is completed by the answer to one request of the port.
template <class T>
class ReplyState : public FutureState<T>, public PendingReply {
public:
  void on_error(Error error) override {
    this->complete(fail(std::move(error)));
  }
};

/// The payload of an answer, or why there is none.
[[nodiscard]] Result<Payload> take_payload(caf_version::Content& content);

/// A payload as what the caller wants: the message, or the payload itself.
template <class T>
Result<T> decode(Result<Payload> payload) {
  if constexpr (std::is_same_v<T, Payload>) {
    return payload;
  } else {
    if (!payload)
      return fail(payload.error());
    return std::move(*payload).template take_as<T>();
  }
}

/// Reads options into a resource request.
/// @returns `invalid_argument` with the rule that is broken (G5).
[[nodiscard]] Result<v1::ResourceRequest> to_request(const Options& options, const std::string& default_name);

} // namespace gpuactors::detail

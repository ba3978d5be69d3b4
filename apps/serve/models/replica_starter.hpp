// Starts and ends the actors of one version of a model.
#pragma once

#include "awaiting.hpp"
#include "deployment.hpp"
#include "keeper_bell.hpp"
#include "model_facts.hpp"

#include <gpuactors/gpuactors.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

/// What is started.
struct ReplicaKind {
  /// An actor type that fulfils the contract of gpuactors/v1/serving.proto, and its configuration, which names model
  /// and version.
  std::string type = network_type;
  wire::ReplicaConfig config;
  /// What each of them asks for; names are given by the starter.
  gpuactors::Options resources;
  /// How long constructing one may take, and its first answer.
  gpuactors::Duration start_timeout = std::chrono::minutes{10};
  /// How long the end of one is waited for. The order to end stays, and reaches a broker that is away when it is back.
  gpuactors::Duration end_wait = std::chrono::seconds{10};
  /// How those are called that outlive the server; none: they end with it.
  std::optional<LastingNames> lasting = {};
};

/// A replica that was constructed.
struct Started {
  std::uint64_t id = 0;
  gpuactors::ActorRef actor;
};

/// Any thread. All waiting ends with `unavailable` once the bell says stop.
class ReplicaStarter {
public:
  /// `cluster` must outlive the starter.
  ReplicaStarter(gpuactors::Cluster& cluster, std::shared_ptr<KeeperBell> bell, ReplicaKind kind);

  /// Asks the cluster's nodes for the type.
  /// @returns nothing if there is no node yet, or none has the type and `spawn` will say so; `not_found` if `spawn`
  ///          would wait for a node that has it; or the errors of `Cluster::described_types`.
  gpuactors::Result<std::optional<gpuactors::v1::ActorDescription>> find_type();

  /// Checks what the cluster's nodes say of the type, before anything is started: its configuration and its methods.
  /// @returns whether it is generative, or nothing as from `find_type`; `invalid_argument`, naming what is missing, or
  ///          the errors of `find_type`.
  gpuactors::Result<std::optional<bool>> check_type();

  /// Finds the replicas of this kind that a server before has left, and ends the model's others: no server of the
  /// deployment will use them. One that does not answer for `patience` is ended, too. Nothing where they do not last.
  /// @param spared  the mark of those that a version beside this one has, or will take over; empty: there is none.
  /// @returns the errors of `Cluster::state`.
  gpuactors::Result<std::vector<Started>> take_over(gpuactors::Duration patience, std::string_view spared = {});

  /// Starts an actor, which waits for its share for so long at most.
  /// @returns the errors of `Cluster::spawn`, of the constructor too.
  gpuactors::Result<Started> spawn(gpuactors::Duration queue_timeout);

  /// Asks the first replica of a version what it is.
  /// @returns also `invalid_argument` if that makes no sense, naming the type and the reason.
  gpuactors::Result<ModelFacts> describe_first(const gpuactors::ActorRef& actor, bool generative) const;

  /// Asks an actor that was started what it is.
  gpuactors::Result<wire::ReplicaDescription> describe(const gpuactors::ActorRef& actor) const;

  /// Ends actors, all at once, and waits for them, for a while; not if replicas are to stay, as the bell says.
  void kill(const std::vector<gpuactors::ActorRef>& actors);

  /// Waits for an answer.
  template <class T>
  gpuactors::Result<T> await(gpuactors::Future<T> coming) const {
    return await_unless([this] { return bell_->stopped(); }, std::move(coming));
  }

  [[nodiscard]] gpuactors::Cluster& cluster() const noexcept {
    return cluster_;
  }

  [[nodiscard]] const ReplicaKind& kind() const noexcept {
    return kind_;
  }

private:
  gpuactors::Future<void> order_end(const gpuactors::ActorKey& actor);

  gpuactors::Cluster& cluster_;
  const std::shared_ptr<KeeperBell> bell_;
  const ReplicaKind kind_;
  std::atomic<std::uint64_t> last_id_{0};
};

} // namespace serve

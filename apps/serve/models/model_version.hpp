// One version of a model that serves: its file as it was when it was loaded, its requests, and its replicas.
#pragma once

#include "dispatcher.hpp"
#include "model_config.hpp"
#include "node_watch.hpp"
#include "replica_set.hpp"

#include <gpuactors/gpuactors.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace serve {

/// How a version is loaded.
struct LoadOptions {
  /// How long the first replica may wait for its share.
  gpuactors::Duration wait = std::chrono::seconds{10};
  /// Whether it also waits for nodes that could give that share.
  bool wait_for_nodes = false;
  /// See `ReplicaOptions`.
  gpuactors::Duration longest_silence = std::chrono::seconds{60};
  /// Told of what becomes of the replicas.
  Notice notice = [](const std::string&) {};
  /// Which nodes replicas should leave; may be null.
  std::shared_ptr<NodeWatch> nodes;
  /// The deployment whose replicas outlive the server; none: they end with it. Whether this version may take over those
  /// of the server before, and the mark of those that are another version's then.
  std::string deployment;
  bool takes_over = false;
  std::string spared;
  /// Where both have one mark, all are that other version's, which was there first.
  bool comes_second = false;
  /// How many replicas the version before has, and what makes room where they have all that there is: for the first
  /// replica, without which there is no version, and for another one.
  std::size_t replicas_before = 0;
  MakeRoom make_first_room = [] { return false; };
  MakeRoom make_room = [] { return false; };
  /// Stops the loading, and later the keeper of the replicas.
  std::shared_ptr<KeeperBell> bell = std::make_shared<KeeperBell>();
};

/// Owned by the model table. Its end blocks and must not come on a thread that answers requests: those keep the
/// dispatcher alone.
class ModelVersion {
public:
  /// Reads `config.file` and starts the replicas. From then on the file may change: replicas that are started later get
  /// the same bytes.
  /// @returns what is wrong with the file or the actor type, why no replica could be started, or `unavailable` once the
  ///          bell says stop.
  static gpuactors::Result<std::unique_ptr<ModelVersion>> load(gpuactors::Cluster& cluster, const ModelConfig& config,
                                                               std::uint64_t number, const LoadOptions& options);

  /// The mark that replicas of a version would have in a deployment: see `kind_mark`.
  /// @returns what is wrong with the file.
  static gpuactors::Result<std::string> mark_for(gpuactors::Cluster& cluster, const ModelConfig& config);

  ModelVersion(const ModelVersion&) = delete;
  ModelVersion& operator=(const ModelVersion&) = delete;
  /// Ends without waiting for requests.
  ~ModelVersion();

  [[nodiscard]] const std::shared_ptr<Dispatcher>& dispatcher() const noexcept {
    return dispatcher_;
  }

  [[nodiscard]] const std::string& number() const noexcept {
    return dispatcher_->facts().version;
  }

  /// Empty without a deployment.
  [[nodiscard]] const std::string& mark() const noexcept {
    return mark_;
  }

  /// See `ReplicaSet`.
  bool give_up_one(gpuactors::TimePoint until, bool in_place, const KeeperBell& stopped) {
    return replicas_->give_up_one(until, in_place, stopped);
  }
  void take_back() {
    replicas_->take_back();
  }

  /// Takes no more requests, waits for the others until `until`, fails the rest, and ends the replicas.
  /// @param replicas_stay  does not end them: the server ends, and its deployment goes on.
  void end(gpuactors::TimePoint until, bool sequences_end = false, bool replicas_stay = false);

private:
  ModelVersion() = default;

  /// Has the first of the replicas that are there described, and builds the version around them.
  /// @param found  whether they were there before: if none of them can serve, one is started.
  gpuactors::Result<void> serve(std::unique_ptr<ReplicaStarter> starter, std::vector<Started> there, bool found,
                                const ModelConfig& config, bool generative, const LoadOptions& how);

  /// The bytes of the file, for replicas; empty without one.
  gpuactors::Shared<gpuactors::Tensor> file_;
  std::string mark_;
  std::shared_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<ReplicaSet> replicas_;
};

} // namespace serve

// All models of a server: which versions of each serve, and how one takes the place of another.
#pragma once

#include "metrics.hpp"
#include "model_config.hpp"
#include "model_version.hpp"

#include <gpuactors/gpuactors.hpp>

#include <apps/serve/batching/traffic_split.hpp>
#include <apps/serve/service.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

struct TableOptions {
  /// What models have that are loaded without having been on the command line.
  ModelConfig defaults{};
  /// The folder that files named by `load` must be in; empty: none may be named.
  std::filesystem::path load_paths{};
  /// How long a version that is replaced or unloaded may take to answer what it has accepted.
  gpuactors::Duration drain = std::chrono::seconds{30};
  /// How long a version that is being loaded waits for the share of its first replica.
  gpuactors::Duration load_wait = std::chrono::seconds{10};
  /// How long a replica may be silent before it counts as stuck: see `ReplicaOptions`.
  gpuactors::Duration longest_silence = std::chrono::seconds{60};
  /// Whether it also waits for nodes that could give that share: those of a running cluster come and go.
  bool wait_for_nodes = false;
  /// The deployment whose replicas outlive the server, and are taken over by the next one; empty: they end with it.
  std::string deployment{};
  /// Told of replicas that are lost and replaced, of versions that take the place of others, of loads and unloads; not
  /// of the first load of a model that was added.
  Notice notice = [](const std::string&) {};
};

/// The `Service` behind the fronts. Use: `add` what is on the command line, then `settle` each, and `close` before the
/// cluster ends. All members from any thread, but none from the answer of a request if it waits.
class ModelTable final : public Service {
public:
  /// `cluster` must outlive the table.
  ModelTable(gpuactors::Cluster& cluster, TableOptions options);

  /// Closes without waiting for requests.
  ~ModelTable() override;

  /// Makes a model known, which `settle` loads. @returns `already_exists` for a second one of this name.
  gpuactors::Result<void> add(const ModelConfig& config);

  /// Says what a model is from now on, whether it is known or not, and that it should serve. What serves goes on until
  /// `settle`; the share of a canary that is there changes at once.
  void set(const ModelEntry& entry);

  /// Whether a model should serve and its versions are not as they should be. False where there is no such model, and
  /// after `close`.
  [[nodiscard]] bool is_missing(std::string_view model) const;

  /// Makes a model's versions as they should be: what is missing is loaded beside the version that serves, a canary
  /// that has become the model itself takes its place, and one that nobody wants ends. Blocks until that is done.
  /// @returns why something cannot be loaded, of which there is no notice: the version before goes on.
  gpuactors::Result<void> settle(std::string_view model);

  /// Unloads a model, which is then no longer known. Blocks until what was accepted is answered.
  gpuactors::Result<void> remove(std::string_view model);

  /// Refuses what comes, gives up what is being loaded, waits for what was accepted until `until`, fails the rest, and
  /// ends all replicas, unless they are a deployment's. Idempotent.
  void close(gpuactors::TimePoint until);

  // -- Service ---------------------------------------------------------------------------------

  std::shared_ptr<Ticket> infer(InferRequest request, InferDone done) override;
  std::shared_ptr<Replies> generate(InferRequest request) override;
  [[nodiscard]] gpuactors::Result<bool> generative(std::string_view model, std::string_view version,
                                                   const SequenceStep& step) const override;
  [[nodiscard]] bool ready() const override;
  [[nodiscard]] gpuactors::Result<bool> model_ready(std::string_view model, std::string_view version) const override;
  [[nodiscard]] gpuactors::Result<ModelDescription> describe(std::string_view model, std::string_view version,
                                                             const SequenceStep& step = {}) const override;
  [[nodiscard]] gpuactors::Result<std::vector<ModelStatistics>> statistics(std::string_view model,
                                                                           std::string_view version) const override;
  [[nodiscard]] std::vector<RepositoryEntry> repository() const override;

  /// The parameter "path" names another file, where `TableOptions::load_paths` allows it.
  gpuactors::Result<void> load(std::string_view model, const std::map<std::string, std::string>& parameters) override;
  gpuactors::Result<void> unload(std::string_view model) override;
  [[nodiscard]] std::string metrics() const override;

private:
  /// What a version was to be that could not serve, and why.
  struct InVain {
    ModelConfig config;
    std::string why;
  };

  /// One model. `loading` orders loads and unloads; all else is guarded by the table's mutex.
  struct Model {
    std::mutex loading;
    ModelConfig config;
    std::unique_ptr<ModelVersion> current;
    /// What the model was when that was loaded.
    ModelConfig current_config;
    /// What a canary should be, if there should be one; the one that serves beside the current version, and what it is.
    std::optional<CanaryConfig> wanted_canary;
    std::unique_ptr<ModelVersion> canary;
    ModelConfig canary_config;
    /// Of what the server before has left, there is what a canary was to take over, and no canary has come since.
    bool spares = false;
    /// Who gets the next request. `dealing` guards it among those who only read the table.
    batching::TrafficSplit split;
    std::mutex dealing;
    std::uint64_t last_number = 0;
    /// The version that is being loaded, and what stops that.
    struct Coming {
      std::uint64_t number = 0;
      std::shared_ptr<KeeperBell> bell;
    };
    std::optional<Coming> coming;
    /// Those that answer what they have accepted.
    std::vector<std::shared_ptr<Dispatcher>> ending;
    /// It should serve: it is not unloaded.
    bool wanted = true;
    /// Only a client named it: it is forgotten when it does not serve any more.
    bool by_client = false;
    /// Those who try again and again what should serve do not have the only replica make room for it once more.
    std::optional<InVain> in_vain;
    /// The last tries to have what should serve beside or in the place of what does: see `why_not_next`.
    std::optional<InVain> next_in_vain;
    std::optional<InVain> canary_in_vain;
    /// Why there is no version; whether that is what the last load failed with.
    std::string reason = "it was not loaded yet";
    bool failed = false;

    [[nodiscard]] bool has_right_canary() const;
    /// The canary is what the model should be and is not: it takes its place, and keeps its share until then, for those
    /// who have it should not go back for a moment.
    [[nodiscard]] bool canary_takes_over() const;
    /// No canary will take over any more what is spared for one.
    [[nodiscard]] bool spares_in_vain() const;
    /// The versions are as they should be.
    [[nodiscard]] bool is_settled() const;
    /// What could not be loaded that should serve by now, where another version does; empty: nothing.
    [[nodiscard]] std::string why_not_next() const;
    /// What requests to a version get that say nothing else.
    [[nodiscard]] const ModelConfig& terms_of(const Dispatcher& dispatcher) const;
    /// Those that serve, the current one first.
    [[nodiscard]] std::vector<const ModelVersion*> serving() const;
  };
  using ModelPtr = std::shared_ptr<Model>;

  /// Where a request goes, and what it gets if it says nothing.
  struct Route {
    std::shared_ptr<Dispatcher> dispatcher;
    std::optional<gpuactors::Duration> timeout;
    std::optional<gpuactors::Duration> queue_timeout;
    std::uint64_t priority = 1;
    /// It is the canary's by its share.
    bool dealt = false;
  };

  // With the mutex.
  [[nodiscard]] gpuactors::Result<ModelPtr> find(std::string_view model) const;
  [[nodiscard]] gpuactors::Result<const ModelVersion*> find_version(const Model& model, std::string_view version) const;

  /// Sets what a request says of priority and time, or what its model says for it.
  static void set_terms(Pending& pending, gpuactors::TimePoint arrived, const Route& route);
  /// @param deals  for a request, not for a look: the canary gets its share.
  [[nodiscard]] gpuactors::Result<Route> route(std::string_view model, std::string_view version,
                                               const SequenceStep& step = {}, bool deals = false) const;
  /// The version that has what a request builds on, if it need not be the current one; null if none has.
  [[nodiscard]] static std::shared_ptr<Dispatcher> find_sequence(const Model& model, std::string_view version,
                                                                 const SequenceStep& step);
  /// Whether the next request goes to the canary.
  [[nodiscard]] static bool is_canarys_turn(Model& model);
  /// A sequence that a request has started anew ends at the other versions. Takes the mutex.
  void end_elsewhere(const Pending& pending, const Dispatcher& taken_by) const;
  [[nodiscard]] std::vector<std::shared_ptr<Dispatcher>> dispatchers() const;
  [[nodiscard]] std::vector<ModelState> wanted_models() const;
  /// The model, and the right to load or unload it.
  struct Locked {
    ModelPtr model;
    std::unique_lock<std::mutex> loading;
  };
  gpuactors::Result<Locked> lock(std::string_view model, const std::optional<std::string>& path);
  gpuactors::Result<ModelPtr> find_or_make(std::string_view model, const std::optional<std::string>& path);
  [[nodiscard]] gpuactors::Result<std::optional<std::string>>
  requested_path(const std::map<std::string, std::string>& parameters) const;
  /// Takes the model out of the table if nothing keeps it there. With the mutex.
  void forget(const Model& model);

  /// What is loaded beside what.
  struct Loading {
    ModelConfig config;
    /// What it is called when it cannot be loaded.
    std::string title;
    /// The version whose place it takes; null: none.
    ModelVersion* before = nullptr;
    /// A version that goes on beside it; null: none.
    std::shared_ptr<Dispatcher> beside;
    /// Whether replicas of a deployment may be taken over, and the mark of those that are another version's.
    bool takes_over = false;
    std::string spared;
    /// No notice of a failure, since who asked tells of it.
    bool quiet = false;
  };

  // The caller has locked `loading`.
  gpuactors::Result<std::unique_ptr<ModelVersion>> load_version(Model& model, const Loading& what);
  /// Loads a version of the model itself, and ends the one before.
  gpuactors::Result<void> load_current(Model& model, const std::optional<std::string>& path, bool quiet);
  /// Ends what the server before has left of a model, but for the replicas of the versions that serve.
  void end_spared(Model& model);
  /// Ends a canary that nobody wants, and loads the one that is wanted.
  gpuactors::Result<void> settle_canary(Model& model, bool quiet);
  /// Ends a canary that nobody wants. @returns whether there was one.
  bool drop_canary(Model& model);
  /// Has a canary that is what the model should be take its place, and the current version be the canary.
  void promote(Model& model);
  /// Takes out a canary that nobody wants, or that cannot be asked like the current version, to be ended. With the
  /// mutex.
  static std::unique_ptr<ModelVersion> take_unfit_canary(Model& model);
  /// Has the version whose place was taken be the canary, if it is what that should be. With the mutex.
  /// @returns whether it was.
  static bool becomes_canary(Model& model, std::unique_ptr<ModelVersion>& old, const ModelConfig& old_config);
  /// A version could not be loaded. @returns the error for who asked for it.
  gpuactors::Failure note_failure(Model& model, const Loading& what, const gpuactors::Error& error);
  /// Takes out the versions that serve, to be ended. With the mutex.
  static std::vector<std::unique_ptr<ModelVersion>> take_versions(Model& model);
  /// Ends a version that is no longer one that serves.
  /// @param sequences_end  Its sequences may go on to their ends until then.
  /// @param replicas_stay  See `ModelVersion::end`.
  void end(Model& model, std::unique_ptr<ModelVersion> version, gpuactors::TimePoint until, bool sequences_end = false,
           bool replicas_stay = false);

  gpuactors::Cluster& cluster_;
  const std::shared_ptr<NodeWatch> nodes_;
  const TableOptions options_;
  mutable std::shared_mutex mutex_;
  // Guarded by the mutex.
  std::map<std::string, ModelPtr, std::less<>> models_;
  bool closing_ = false;
};

} // namespace serve

// The replicas of one version of a model: starts them, measures them, replaces those that die, and starts and ends some
// as the queue demands.
#pragma once

#include "dispatcher.hpp"
#include "keeper_bell.hpp"
#include "replica_starter.hpp"

#include <gpuactors/gpuactors.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace serve {

/// Takes a line about something that happened, for who looks after the server. Any thread.
using Notice = std::function<void(const std::string&)>;

struct ReplicaOptions {
  batching::ScalingLimits scaling;
  /// How many there are at the start.
  std::size_t initial = 1;
  /// Whether replicas that answer zeros with NaN or infinity are refused.
  bool numbers_only = true;
  /// How long a batch, or the answer of a generative replica to what it is, may take before the replica counts as
  /// stuck.
  gpuactors::Duration longest_silence = std::chrono::seconds{60};
  /// Told of replicas that are lost, and of those that come and go after the start.
  Notice notice = [](const std::string&) {};
};

/// Replicas behind a dispatcher. One thread of its own does what takes time. All members from any thread.
class ReplicaSet {
public:
  /// Takes over the first replica, starts the other initial ones, one after the other, and waits until each of them
  /// serves. It goes on with fewer if there is no room for all, and brings the others when there is.
  /// @returns why not even the first one can serve, which is ended then; `unavailable` once the bell says stop.
  static gpuactors::Result<std::unique_ptr<ReplicaSet>> start(std::unique_ptr<ReplicaStarter> starter, Started first,
                                                              std::shared_ptr<Dispatcher> dispatcher,
                                                              std::shared_ptr<KeeperBell> bell, ReplicaOptions options);

  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;
  /// Stops.
  ~ReplicaSet();

  /// Ends all replicas; returns when they have ended. The dispatcher should be closed by then. Idempotent.
  void stop();

private:
  ReplicaSet(std::unique_ptr<ReplicaStarter> starter, std::shared_ptr<Dispatcher> dispatcher,
             std::shared_ptr<KeeperBell> bell, ReplicaOptions options);

  // On the keeper's thread, or before it runs.
  void keep();
  void look_around();
  gpuactors::Result<void> start_one(gpuactors::Duration queue_timeout);
  /// Measures a replica that was started and has it serve; ends it otherwise.
  gpuactors::Result<void> bring_in(const Started& started);
  gpuactors::Result<wire::ReplicaDescription> check_description(const gpuactors::ActorRef& actor) const;
  gpuactors::Result<void> warm_up(const gpuactors::ActorRef& actor, gpuactors::Share share);
  void ask_replicas(const batching::ScalingLook& look);
  void end(std::uint64_t id);
  void note(const std::string& what) const;

  const std::unique_ptr<ReplicaStarter> starter_;
  const std::shared_ptr<Dispatcher> dispatcher_;
  const std::shared_ptr<KeeperBell> bell_;
  const ReplicaOptions options_;
  batching::Scaling scaling_;
  std::map<std::uint64_t, gpuactors::ActorRef> actors_;
  /// Whether a replica has been asked for its description and has not answered yet.
  std::map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> asked_;
  gpuactors::TimePoint next_ask_{};
  bool keeping_ = false;
  /// Why the last start failed: the same is not said again and again.
  std::string last_failure_;
  std::thread keeper_;
};

} // namespace serve

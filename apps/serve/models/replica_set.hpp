// The replicas of one version of a model: starts them, measures them, replaces those that die, and starts and ends some
// as the queue demands.
#pragma once

#include "dispatcher.hpp"

#include <gpuactors/gpuactors.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace serve {

/// What wakes the keeper of a replica set: it may ring before there is one, and after.
class KeeperBell {
public:
  void ring();
  /// Says that the keeper should end.
  void stop();
  /// Waits for a ring, at most so long. @returns false once stopped.
  bool wait(gpuactors::Duration most);
  [[nodiscard]] bool stopped() const;

private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool rung_ = false;
  bool stopped_ = false;
};

/// Takes a line about something that happened, for who looks after the server. Any thread.
using Notice = std::function<void(const std::string&)>;

struct ReplicaOptions {
  /// The actor type that takes a `ReplicaConfig` and has the methods of `replica.hpp`.
  std::string type = replica_type;
  wire::ReplicaConfig config;
  /// What each of them asks for; names are given here.
  gpuactors::Options resources;
  batching::ScalingLimits scaling;
  /// How many there are at the start.
  std::size_t initial = 1;
  /// How long the first of them may wait for its share; later ones are tried again.
  gpuactors::Duration first_wait = std::chrono::seconds{10};
  /// Told of replicas that are lost, and of those that come and go after the start.
  Notice notice = [](const std::string&) {};
};

/// Replicas behind a dispatcher. One thread of its own does what takes time. All members from any thread.
class ReplicaSet {
public:
  /// Starts the initial replicas, one after the other, and waits until each of them serves. It goes on with fewer if
  /// there is no room for all, and brings the others when there is.
  /// @returns why not even one could be started; `unavailable` once the bell says stop.
  static gpuactors::Result<std::unique_ptr<ReplicaSet>> start(gpuactors::Cluster& cluster,
                                                              std::shared_ptr<Dispatcher> dispatcher,
                                                              std::shared_ptr<KeeperBell> bell, ReplicaOptions options);

  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;
  /// Stops.
  ~ReplicaSet();

  /// Ends all replicas; returns when they have ended. The dispatcher should be closed by then. Idempotent.
  void stop();

private:
  ReplicaSet(gpuactors::Cluster& cluster, std::shared_ptr<Dispatcher> dispatcher, std::shared_ptr<KeeperBell> bell,
             ReplicaOptions options);

  // On the keeper's thread, or before it runs.
  void keep();
  void look_around();
  gpuactors::Result<void> start_one(gpuactors::Duration queue_timeout);
  gpuactors::Result<gpuactors::ActorRef> spawn(gpuactors::Duration queue_timeout);
  /// Waits for an answer, unless it is told to stop.
  template <class T>
  gpuactors::Result<T> await(gpuactors::Future<T> coming) const;
  gpuactors::Result<void> warm_up(const gpuactors::ActorRef& actor, gpuactors::Share share);
  void ask_idle_ones(const batching::ScalingLook& look);
  void end(std::uint64_t id);
  void kill(const gpuactors::ActorRef& actor);
  void note(const std::string& what) const;

  gpuactors::Cluster& cluster_;
  const std::shared_ptr<Dispatcher> dispatcher_;
  const std::shared_ptr<KeeperBell> bell_;
  const ReplicaOptions options_;
  batching::Scaling scaling_;
  std::map<std::uint64_t, gpuactors::ActorRef> actors_;
  std::uint64_t last_id_ = 0;
  gpuactors::TimePoint next_ask_{};
  bool keeping_ = false;
  /// Why the last start failed: the same is not said again and again.
  std::string last_failure_;
  std::thread keeper_;
};

} // namespace serve

// The replicas of one version of a model: starts them, measures them, replaces those that die, and starts and ends some
// as the queue demands.
#pragma once

#include "batch_calls.hpp"
#include "dispatcher.hpp"
#include "keeper_bell.hpp"
#include "node_watch.hpp"
#include "replica_starter.hpp"

#include <gpuactors/gpuactors.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace serve {

/// Takes a line about something that happened, for who looks after the server. Any thread.
using Notice = std::function<void(const std::string&)>;

/// Has another version of the model give up a replica, for one that finds no room. Returns whether it did.
using MakeRoom = std::function<bool()>;

struct ReplicaOptions {
  batching::ScalingLimits scaling;
  /// How many there are at the start.
  std::size_t initial = 1;
  /// Whether the first ones were found: if none of them can serve, one is started.
  bool found = false;
  /// Whether replicas that answer zeros with NaN or infinity are refused.
  bool numbers_only = true;
  /// How long a batch, or the answer of a generative replica to what it is, may take before the replica counts as
  /// stuck.
  gpuactors::Duration longest_silence = std::chrono::seconds{60};
  /// How long its first batch may take, if that is longer: it may have to be prepared for.
  gpuactors::Duration start_timeout{};
  /// How many batches wait at a replica behind the one that runs: they may take longer, too.
  std::size_t ahead = 0;
  /// Which nodes replicas should leave; may be null.
  std::shared_ptr<NodeWatch> nodes;
  /// Asked for room for the initial replicas but the first one, and how long each of them then waits for it.
  MakeRoom make_room = [] { return false; };
  gpuactors::Duration room_wait = std::chrono::seconds{10};
  /// Told of replicas that are lost, and of those that come and go after the start.
  Notice notice = [](const std::string&) {};
};

/// Replicas behind a dispatcher. A thread of its own keeps them: it replaces those that are lost, and those on nodes
/// that are being emptied, which serve until another one can and what they have begun is over. Starts run on threads
/// beside it, so that one that hangs holds up no other. All members from any thread.
class ReplicaSet {
public:
  /// Takes over the first replica, and others that are there, as many as there may be; starts the other initial ones,
  /// one after the other, and waits until each of them serves. It goes on with fewer if there is no room for all, and
  /// none can be made, and brings the others when there is.
  /// @returns why not even the first one can serve, which is ended then; `unavailable` once the bell says stop.
  static gpuactors::Result<std::unique_ptr<ReplicaSet>> start(std::unique_ptr<ReplicaStarter> starter,
                                                              std::vector<Started> there,
                                                              std::shared_ptr<Dispatcher> dispatcher,
                                                              std::shared_ptr<KeeperBell> bell, ReplicaOptions options);

  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;
  /// Stops.
  ~ReplicaSet();

  /// Ends a replica and brings no other in its place: the model's next version is to have its share. It answers what it
  /// has, until `until`; then that goes to others, and streams and sequences that have begun end. Half of the replicas
  /// that there were at the first call stay, rounded up.
  /// @param in_place  gives up an only replica, too: nothing new is taken from then on, and what was accepted is
  ///                  answered first.
  /// @param stopped  ends the waiting.
  /// @returns whether one has ended.
  bool give_up_one(gpuactors::TimePoint until, bool in_place, const KeeperBell& stopped);

  /// The next version does not come: brings back what was given up, as soon as there is room, and takes requests again.
  void take_back();

  /// Ends all replicas, unless they are to outlive the server; returns when they have ended. The dispatcher should be
  /// closed by then. Idempotent.
  void stop(bool replicas_stay = false);

private:
  ReplicaSet(std::unique_ptr<ReplicaStarter> starter, std::shared_ptr<Dispatcher> dispatcher,
             std::shared_ptr<KeeperBell> bell, ReplicaOptions options);

  /// A replica that can serve.
  struct Ready {
    Started started;
    gpuactors::Share share;
    std::uint64_t memory_used_bytes = 0;
  };

  /// A replica that is to end without being lost.
  struct Leaving {
    /// It gets nothing more: another one has taken its place, or none shall.
    bool retired = false;
    /// What it has by then goes to others.
    gpuactors::TimePoint until = gpuactors::never;
    /// What is noted when it has ended.
    std::string note;
  };

  /// A call of `give_up_one`.
  struct GivingUp {
    gpuactors::TimePoint until{};
    bool in_place = false;
    /// Nothing new is taken: the only replica is to go.
    bool closed = false;
    gpuactors::TimePoint since{};
    std::promise<bool> has_ended;
    /// How many are to be left.
    std::optional<std::size_t> left;
    /// Which one; 0 until it is chosen.
    std::uint64_t id = 0;
  };

  /// A start on its way. The thread writes `outcome`, then `is_over`.
  struct Start {
    /// The replica whose place it takes; 0 for none.
    std::uint64_t replaces = 0;
    bool needed = true;
    gpuactors::TimePoint since{};
    std::optional<gpuactors::Result<Ready>> outcome = {};
    std::atomic<bool> is_over = false;
    std::thread thread = {};
  };

  /// The end of a replica, likewise.
  struct End {
    std::uint64_t id = 0;
    gpuactors::TimePoint since{};
    std::atomic<bool> is_over = false;
    std::thread thread = {};
  };

  /// How long replicas after the first one that have to be there may wait for their share before they are tried again.
  static constexpr std::chrono::seconds needed_wait{1};

  // Any thread.
  /// Starts a replica and measures it; ends it if it cannot serve.
  gpuactors::Result<Ready> make_one(gpuactors::Duration queue_timeout);
  /// Measures a replica that was started.
  gpuactors::Result<Ready> measure(const Started& started);

  // On the keeper's thread, or before it runs.
  gpuactors::Result<void> bring_in_first(std::vector<Started> there);
  void keep();
  void look_around();
  /// Finds those that have ended, whether they had something to do or not.
  void lose_away();
  void take_lost();
  void begin_start(bool needed, std::uint64_t replaces = 0);
  void take_starts();
  /// One that is over.
  void take_start(const Start& start);
  void look_at_nodes();
  void give_up();
  [[nodiscard]] std::optional<std::uint64_t> least_needed(const std::vector<batching::ReplicaLook>& replicas) const;
  void see_off();
  /// Has a replica serve.
  void bring_in(const Ready& ready);
  gpuactors::Result<wire::ReplicaDescription> check_description(const gpuactors::ActorRef& actor) const;
  gpuactors::Result<void> warm_up(const gpuactors::ActorRef& actor, gpuactors::Share share);
  void ask_replicas(const batching::ScalingLook& look);
  /// Ends a replica, which may take a while, on a thread beside the keeper; nothing if it is not there any more.
  void end_beside(std::uint64_t id);
  void end_beside(const Started& replica);
  [[nodiscard]] bool is_ending(std::uint64_t id) const;
  /// Takes a replica out of the books.
  std::optional<gpuactors::ActorRef> take(std::uint64_t id);
  void note(const std::string& what) const;
  /// Says why a start has failed, unless that was the last thing said within a minute.
  void note_failure(std::string what);

  const std::unique_ptr<ReplicaStarter> starter_;
  const std::shared_ptr<BatchCalls> calls_;
  const std::shared_ptr<Dispatcher> dispatcher_;
  const std::shared_ptr<KeeperBell> bell_;
  const ReplicaOptions options_;
  batching::Scaling scaling_;
  std::map<std::uint64_t, gpuactors::ActorRef> actors_;
  std::map<std::uint64_t, Leaving> leaving_;
  /// How many replicas there were before the next version wanted any; 0 as long as it does not.
  std::size_t before_ = 0;
  std::vector<std::unique_ptr<Start>> starts_;
  std::vector<std::unique_ptr<End>> ends_;
  /// Whether a replica has been asked for its description and has not answered yet.
  std::map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> asked_;
  gpuactors::TimePoint next_ask_{};
  bool keeping_ = false;
  /// Why the last start failed: the same is not said again and again.
  std::string last_failure_;
  gpuactors::TimePoint next_failure_note_{};
  std::thread keeper_;

  std::mutex next_version_;
  // Guarded by the mutex: what the thread that loads the next version wants.
  std::optional<GivingUp> giving_up_;
  bool taken_back_ = false;
};

} // namespace serve

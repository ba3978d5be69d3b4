// Requests that belong together: which of them may go now, to which replica, and which cannot go any more.
#pragma once

#include "request.hpp"

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve::batching {

/// What replicas keep of a sequence: state that only the replica has at which it began, or a cache, which any replica
/// builds anew from any request.
enum class Memory : std::uint8_t { state, cache };

/// Requests of one sequence that may wait behind the one that runs: one client must not fill the queue of all.
inline constexpr std::size_t most_waiting_in_sequence = 32;

struct SequenceLimits {
  Memory memory = Memory::state;
  /// How many there may be, and after how long without requests one is forgotten.
  std::size_t most = 1'024;
  gpuactors::Duration idle = std::chrono::seconds{60};
};

/// One sequence. Only `Sequences` changes it.
struct Sequence {
  std::string id;
  /// Where its requests go; 0: nowhere yet.
  std::uint64_t replica = 0;
  /// Its requests in the order in which they came, and the turn of the one that runs; 0: none.
  std::map<std::uint64_t, RequestPtr> turns;
  std::uint64_t last_turn = 0;
  std::uint64_t running = 0;
  /// Whether its replica has what the next request builds on, as far as requests were answered.
  bool begun = false;
  /// It goes on elsewhere.
  bool moved = false;
  gpuactors::TimePoint idle_since{};
};

/// The sequences of one model. Requests of one go in the order in which they came, one at a time, to one replica.
///
/// A request enters when it was admitted to the queue, and leaves as it leaves that. Where replicas keep state, each
/// request builds on those before it, back to one that starts the sequence: if that fails, or the replica is lost,
/// those behind it cannot be answered any more, up to the next one that starts it. A cache is only a reason to prefer a
/// replica. No clock, no thread, no lock: time is an argument, and whoever owns it guards it.
class Sequences {
public:
  explicit Sequences(SequenceLimits limits) : limits_(limits) {
    // nop
  }

  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;
  /// Lets go of all: requests and sequences know each other.
  ~Sequences();

  /// Whether a request, of which `starts` is set, could enter. Changes nothing.
  /// @returns `invalid_argument` when it builds on what is not here, `queue_full` when too many of its sequence wait,
  ///          or when there are too many sequences.
  [[nodiscard]] gpuactors::Result<void> check(const Request& request, std::string_view id,
                                              gpuactors::TimePoint now) const;

  /// Puts a request behind the others of its sequence; `starts` and `ends` of it are set.
  /// @returns the errors of `check`.
  gpuactors::Result<void> enter(const RequestPtr& request, std::string_view id, gpuactors::TimePoint now);

  /// Whether there is a sequence of that name that a request may build on.
  [[nodiscard]] bool has(std::string_view id, gpuactors::TimePoint now) const;

  /// No request builds on those of that name any more: the sequence ends with the ones that are here.
  void end(std::string_view id);

  /// Whether it is the first of its sequence, and none runs.
  [[nodiscard]] static bool is_next(const Request& request);

  /// It runs at a replica, where those behind it go, too.
  void sent(Request& request, std::uint64_t replica);

  /// It does not run after all, and is the next one again.
  static void returned(Request& request);

  /// It was answered, or failed.
  /// @returns those that cannot be answered without it; they have left, too.
  std::vector<RequestPtr> leave(Request& request, bool answered, gpuactors::TimePoint now);

  /// It ran, and nothing can build on what it has left at its replica.
  /// @returns those that would have; they have left.
  static std::vector<RequestPtr> spoil(Request& request);

  /// A replica is gone. What ran there does not.
  /// @returns those that cannot be answered without what it had; they have left.
  std::vector<RequestPtr> lose(std::uint64_t replica);

  /// How many sequences there are at a replica.
  [[nodiscard]] std::size_t count_at(std::uint64_t replica) const;

  /// How many sequences there are at each replica, without those that have been idle for too long, which it forgets.
  std::map<std::uint64_t, std::size_t> by_replica(gpuactors::TimePoint now);

  /// Forgets those that have been idle for too long.
  void forget_expired(gpuactors::TimePoint now);

  [[nodiscard]] std::size_t size() const noexcept {
    return all_.size();
  }

private:
  using All = std::map<std::string, std::shared_ptr<Sequence>, std::less<>>;
  /// Those without requests, and since when, by their own names.
  using Idle = std::set<std::pair<gpuactors::TimePoint, std::string_view>>;

  /// Whether a request that does not start it anew may come behind the last one.
  [[nodiscard]] static bool open(const Sequence& sequence);
  void move(Sequence& sequence, std::uint64_t replica);
  All::iterator erase(All::iterator it);

  [[nodiscard]] bool expired(const Sequence& sequence, gpuactors::TimePoint now) const;
  void note_idle(Sequence& sequence, gpuactors::TimePoint now);
  /// Takes out those behind `turn`, up to one that starts the sequence.
  static std::vector<RequestPtr> cut(Sequence& sequence, std::uint64_t turn);

  SequenceLimits limits_;
  All all_;
  Idle idle_;
  std::map<std::uint64_t, std::size_t> counts_;
};

} // namespace serve::batching

// Member: one actor's part in a collective group. Internal to the layer.
//
// Three threads work on it: the actor's own, in an operation; the one of its concurrent methods, which takes what comes
// from the member before; and the one of its process that runs callbacks, which takes the answers of the next member.
// Whichever of them has something for the next member sends it, one at a time, without the mutex. Nothing here waits
// for room: what the next member has not used yet is bounded, and the rest stays in the array.
//
// The end of a group goes around against the ring: each member has one call open at the next one, which is answered
// when the group is over there, or fails with its death.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/collective/detail/operation.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpuactors::detail {

/// Returns what a member is called in texts: its name, or its type and number.
[[nodiscard]] std::string name_of(const v1::ActorHandle& member);

/// A group from the view of one member. A plain value.
struct Place {
  /// 0: in no group.
  std::uint64_t generation = 0;
  std::size_t rank = 0;
  /// For people, by rank.
  std::vector<std::string> names;

  [[nodiscard]] std::size_t size() const noexcept {
    return names.size();
  }
};

/// How long an operation goes on.
struct Patience {
  /// Asked again and again on the thread of the operation; must not block.
  std::function<bool()> stop;
  /// Of the running call: nobody waits for its answer then.
  TimePoint call_deadline = never;
  /// Of the operation; not after that of the call.
  TimePoint deadline = never;
};

class Member : public std::enable_shared_from_this<Member> {
public:
  using Answer = v1::CollectiveAnswer;

  // -- thread of the concurrent methods ------------------------------------------------------------

  /// Makes it part of a group, in place of an earlier one. `next` is empty if it is alone.
  void join(Place place, ActorRef next);
  /// All others have joined too. @returns `stale_epoch` if it is in another group by now.
  Result<void> start(std::uint64_t generation);
  Future<Answer> watch(std::uint64_t generation);
  /// Takes a piece from the member before; answered when it was used.
  Future<Answer> take(std::uint64_t generation, const v1::CollectivePiece& piece);

  // -- any thread ----------------------------------------------------------------------------------

  /// Ends the group for everybody; `generation` 0 means the one that it is in.
  void abort(std::uint64_t generation, const Error& error);
  [[nodiscard]] Place place() const;
  [[nodiscard]] std::optional<Error> ended() const;

  // -- the actor's thread --------------------------------------------------------------------------

  /// Returns its place when all members have joined; an error for a call that is over and has begun nothing here.
  Result<Place> await_place(const Patience& patience);
  /// Takes part in `operation` of a group, with the whole array at `values`. Any error is the end of the group.
  Result<void> run(std::uint64_t generation, const Operation& operation, std::span<std::byte> values,
                   const Patience& patience);
  /// Ends the group `generation` because this member cannot take part in what it was asked for. @returns `error`.
  Failure refuse(std::uint64_t generation, std::string_view what, const Error& error);

private:
  /// The operation under way.
  struct Running {
    Operation operation;
    Ring ring;
    std::span<std::byte> values;
    /// What has to go to the next member. `announces`: that this one has begun, as it has no piece to send.
    std::deque<PieceSpan> outgoing;
    bool announces = false;
    /// The member before has begun as well.
    bool met = false;

    [[nodiscard]] bool done() const noexcept {
      return met && ring.done() && outgoing.empty() && !announces;
    }
  };

  /// A piece that came before this member began the operation.
  struct Early {
    v1::CollectivePiece piece;
    Promise<Answer> used;
  };

  using Lock = std::unique_lock<std::mutex>;

  // All with the mutex.
  [[nodiscard]] std::string who(std::size_t rank) const;
  [[nodiscard]] std::string self() const;
  [[nodiscard]] std::size_t before() const;
  [[nodiscard]] std::size_t after() const;
  /// Works a piece of the operation under way into its array.
  Result<void> use(const v1::CollectivePiece& piece);
  /// Whether a piece may wait for its turn.
  [[nodiscard]] Result<void> check_early(const v1::CollectivePiece& piece) const;
  /// The group is over. The first error counts. `own`: what this member's operations fail with, if it is another one.
  void break_off(const Error& error, std::optional<Error> own = std::nullopt);
  void forget_group(const Error& error);
  /// Whether an operation may go on. A call that is over ends no group that it has begun nothing in: it may be an old
  /// one, which a program that has its answer already does not wait for.
  Result<void> look(const Patience& patience, const std::string& what);
  /// Sends what may be sent; unlocks meanwhile.
  void pump(Lock& lock);
  [[nodiscard]] std::optional<v1::CollectiveCall> next_call();
  /// Waits until `done`, or returns why that will never be so in the group `generation`.
  Result<void> await(Lock& lock, std::uint64_t generation, const Patience& patience, const std::string& what,
                     const std::function<bool()>& done);
  [[nodiscard]] std::string why_not_done() const;

  // Without it.
  void send(const ActorRef& next, v1::CollectiveCall call);
  void answered(std::uint64_t generation, bool was_piece, const Result<Answer>& answer);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Place place_;
  ActorRef next_;
  bool started_ = false;
  /// Why the group is over: for others, and for this member.
  std::optional<Error> over_;
  std::optional<Error> own_end_;
  /// Operations that were begun.
  std::uint64_t number_ = 0;
  std::optional<Running> running_;
  std::deque<Early> early_;
  std::vector<Promise<Answer>> watchers_;
  /// Pieces that the next member has not used.
  std::size_t on_their_way_ = 0;
  /// A thread sends.
  bool pumping_ = false;
};

} // namespace gpuactors::detail

// Collective: sums, broadcasts and barriers among actors, for programs that train, or compute, on several actors at
// once.
//
//   class Worker : public gpuactors::WithPeers<gpuactors::GPUActor> {
//   public:
//     using WithPeers::WithPeers;
//     gpuactors::Result<Loss> step(const Batch& batch) {
//       ... queue the computation of the gradients on gpu().stream() ...
//       GPUACTORS_TRY(peers().all_reduce(gpu().stream(), gradients)); // waits for the others
//       ... update the parameters: every member ends with the same bits ...
//     }
//   };
//   GPUACTORS_ACTOR("worker", Worker).method("step", &Worker::step);
//
//   // The program, once all workers run, and again when one of them was replaced:
//   GPUACTORS_LET(group, gpuactors::form_collective(workers));
#pragma once

#include <gpuactors/actor/actor.hpp>
#include <gpuactors/actor/interface.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/collective/reduction.hpp>
#include <gpuactors/device/stream.hpp>
#include <gpuactors/v1/collective.pb.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

namespace detail {
class Member;
struct Operation;
struct Patience;
} // namespace detail

/// The type of `collective_method`: only `concurrent_method` registers it, because members wait for each other inside
/// their other methods.
struct CollectiveMethod : Method<v1::CollectiveCall, v1::CollectiveAnswer> {
  using Method::Method;
  static constexpr bool concurrent_only = true;
};

/// The method by which members reach each other; types that derive from `WithPeers` have it. Its name is reserved.
/// While another concurrent method of the same actor waits, all members wait, because an actor has one thread for all
/// its concurrent methods.
inline constexpr CollectiveMethod collective_method{"gpuactors.collective"};

/// An actor's part in a collective group, which `form_collective` makes.
///
/// All members call the same operations in the same order, each on its own actor's thread, in a method (never in a
/// concurrent one). An operation waits for the other members, and ends in any case: when it is done, or with the error
/// that ended the group. After an error the group is over for all its members, every operation of it fails with that
/// error, and arrays have undefined contents; the program forms a new group. An operation gives the same bits on every
/// member, and again when it is repeated with members in the same order.
///
/// A call whose deadline has passed, or that was cancelled, does not enter a group in which it has not begun an
/// operation: its operations fail without ending that group. Do not end a member before all members' calls are
/// answered: data that the next member has not taken yet would be lost. Answers are processed on the process's callback
/// thread, so a `Future::then` callback that blocks delays the operations of all members in its process.
///
/// Errors of all operations:
/// - `invalid_argument`: the members called different operations, saying what two of them called; or the actor is in no
///   group, or arguments are wrong;
/// - `unavailable`: a member died, was asked to stop, has lost its device, or takes no more calls
///   (`max_pending_calls`), with its rank and name;
/// - `cancelled`: this actor was asked to stop (`stop_requested`), the group was formed again, or `abort` was called;
/// - `out_of_memory`: this member, or another one, has no memory for the operation;
/// - `deadline_exceeded`: the timeout, or the deadline of the running call, came first here or at another member, with
///   what it waited for;
/// - `stale_epoch` and others of the stream, where tensors are used.
///
/// At most 4 MiB of what a member has sent wait until the next member uses them. In a group of one member, operations
/// return at once. Members are found by the method `collective_method`, which the type registers; `WithPeers` has both.
class Collective {
public:
  /// Creates the part of `actor`, which owns this object and must outlive it.
  explicit Collective(Actor& actor);
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  ~Collective();

  // -- operations: the actor's thread --------------------------------------------------------------

  /// Replaces each member's array with the combination of all members' arrays. All have the same number of elements, of
  /// any type but bytes.
  template <TensorValues R>
  Result<void> all_reduce(R&& values, Reduction reduction = Reduction::sum, Duration timeout = Duration::max()) {
    return reduce(std::ranges::data(values), std::ranges::size(values), dtype_of<ElementOf<R>>, reduction, timeout);
  }

  /// Overload for a tensor: waits for the work that is queued on `stream`, and returns when the tensor has the result.
  /// The array goes through host memory of the same size, which is kept for the next operation.
  Result<void> all_reduce(Stream& stream, Tensor& tensor, Reduction reduction = Reduction::sum,
                          Duration timeout = Duration::max());

  /// Replaces each member's array with that of the member `root`. All have the same number of elements, of any type.
  template <TensorValues R>
  Result<void> broadcast(R&& values, std::size_t root = 0, Duration timeout = Duration::max()) {
    return spread(std::ranges::data(values), std::ranges::size(values), dtype_of<ElementOf<R>>, root, timeout);
  }

  Result<void> broadcast(Stream& stream, Tensor& tensor, std::size_t root = 0, Duration timeout = Duration::max());

  /// Returns the arrays of all members one after the other, in the order of their ranks. All have the same number of
  /// elements, of any type.
  template <TensorValues R>
  Result<std::vector<ElementOf<R>>> all_gather(const R& values, Duration timeout = Duration::max()) {
    std::vector<ElementOf<R>> all;
    const auto room = [&all](std::size_t elements) -> void* {
      all.resize(elements);
      return all.data();
    };
    GPUACTORS_TRY(gather(std::ranges::data(values), std::ranges::size(values), dtype_of<ElementOf<R>>, room, timeout));
    return all;
  }

  /// Overload for tensors: `all` has the elements of `own` times the number of members.
  Result<void> all_gather(Stream& stream, const Tensor& own, Tensor& all, Duration timeout = Duration::max());

  /// Returns when all members have called it.
  Result<void> barrier(Duration timeout = Duration::max());

  /// Ends the group for all its members: operations fail with `cancelled`, this member's rank and `reason`. For a
  /// member that cannot go on and knows that others wait for it. Any thread of the actor.
  void abort(std::string_view reason) const;

  // -- the group: any thread of the actor ----------------------------------------------------------

  /// Return this member's rank and the number of members; 0 and 0 in no group.
  [[nodiscard]] std::size_t rank() const;
  [[nodiscard]] std::size_t size() const;

  /// Returns the error that ended the group; nothing while the group lasts, and in no group. For members that also wait
  /// for something other than operations.
  [[nodiscard]] std::optional<Error> ended() const;

  /// Answers messages of other members and of the program. The concurrent method `collective_method` calls it.
  [[nodiscard]] Future<v1::CollectiveAnswer> serve(const v1::CollectiveCall& call) const;

private:
  Result<void> reduce(void* values, std::size_t count, DType dtype, Reduction reduction, Duration timeout);
  Result<void> spread(void* values, std::size_t count, DType dtype, std::size_t root, Duration timeout);
  Result<void> gather(const void* own, std::size_t count, DType dtype, const std::function<void*(std::size_t)>& room,
                      Duration timeout);
  [[nodiscard]] detail::Patience patience(Duration timeout) const;
  Result<void> join(std::uint64_t generation, const v1::CollectiveJoin& join) const;
  /// Copy a tensor to `scratch_`, and back.
  Result<void> fetch(Stream& stream, const Tensor& tensor, std::size_t offset);
  Result<void> store(Stream& stream, Tensor& tensor);

  Actor& actor_;
  std::shared_ptr<detail::Member> member_;
  std::vector<std::byte> scratch_;
};

/// An actor that has peers: `Base` is `GPUActor`, `FractionalGPUActor` or `Actor`. Derived types have
/// `collective_method` without registering it; a class with a `register_methods` of its own calls that of `WithPeers`
/// there.
template <std::derived_from<Actor> Base>
class WithPeers : public Base {
public:
  explicit WithPeers(Init init) : Base(std::move(init)) {
    // nop
  }

  /// For `define_actor`.
  template <class Builder>
  static void register_methods(Builder& builder) {
    builder.concurrent_method(collective_method, &WithPeers::collective_call);
  }

  /// Implements `collective_method`.
  [[nodiscard]] Future<v1::CollectiveAnswer> collective_call(const v1::CollectiveCall& call) const {
    return peers_.serve(call);
  }

protected:
  [[nodiscard]] Collective& peers() noexcept {
    return peers_;
  }

  [[nodiscard]] const Collective& peers() const noexcept {
    return peers_;
  }

private:
  Collective peers_{*this};
};

} // namespace gpuactors

// Actors: base classes for objects that keep state, and device memory, between messages.
//
//   class Scaler : public gpuactors::FractionalGPUActor {
//   public:
//     Scaler(gpuactors::Init init, const ScalerConfig& config)
//       : FractionalGPUActor(std::move(init)), factor_(config.factor()) {}
//     gpuactors::Result<Vector> scale(const Vector& in);
//   private:
//     float factor_;
//   };
//   GPUACTORS_ACTOR("scaler", Scaler, ScalerConfig).method("scale", &Scaler::scale);
#pragma once

#include <gpuactors/actor/actor_thread.hpp>
#include <gpuactors/actor/holder_context.hpp>
#include <gpuactors/actor/metrics.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/actor.pb.h>
#include <gpuactors/wire/payload.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace caf {
class event_based_actor;
} // namespace caf

namespace gpuactors {

/// Which part of a device an actor type takes.
enum class Ownership : std::uint8_t {
  /// Whatever the lease holds, even nothing.
  any,
  /// One or more whole devices.
  whole,
  /// A share below one device.
  fraction,
};

namespace detail {

/// The data of the hosting CAF actor; it outlives the user's object.
struct ActorHost {
  ActorId id;
  std::string name;
  std::string type;
  /// As in v1::ActorHandle.
  std::uint64_t origin = 0;
  int restarts = 0;
  /// What was saved last; empty if nothing was. Guarded by the mutex, for concurrent methods read it.
  Payload saved;
  std::mutex saving;
  std::unique_ptr<Placement> placement;
  std::shared_ptr<HolderControl> control;
  std::shared_ptr<const ProcessServices> services;
  std::shared_ptr<Posts> posts;
  caf::event_based_actor* self = nullptr;
  /// A method, or a function that was posted, runs.
  bool in_call = false;
  /// Whether the actor ends itself, and whether the message that ends it is under way.
  bool ends_itself = false;
  bool end_sent = false;

  /// Has the actor end when it has answered what is in its mailbox now. Actor's thread.
  void end_behind_queue();
};

} // namespace detail

/// The argument of an actor's constructor, to be passed on to the base class. Move-only, opaque.
class Init {
public:
  explicit Init(detail::ActorHost& host) : host_(&host) {
    // nop
  }

  Init(Init&&) = default;
  Init& operator=(Init&&) = default;
  Init(const Init&) = delete;
  Init& operator=(const Init&) = delete;

private:
  friend class Actor;
  detail::ActorHost* host_;
};

/// An actor with any lease, even one without a device.
///
/// Lifecycle: constructed -> serves its methods one message at a time -> destroyed; all three on the actor's own
/// thread (concurrent methods have a second one), never on CAF's scheduler, so it may block, wait for the device and
/// call others. An ordinary CAF actor (`ActorRef::handle`, `self()`) hosts the object and adds deadlines, stop,
/// counting and errors to each method: an exception that leaves a method becomes the error `task_failed` of that call,
/// and the actor keeps working. Memory allocated through `gpu()` is freed when the actor ends, however it ends. Call
/// members only on the actor's own thread; const ones also in concurrent methods.
class Actor : public HolderContext {
public:
  static constexpr Ownership ownership = Ownership::any;

  explicit Actor(Init init);

  virtual ~Actor() = default;

  [[nodiscard]] ActorId id() const noexcept {
    return host_->id;
  }

  /// Returns the actor's name; empty if it has none.
  [[nodiscard]] const std::string& name() const noexcept {
    return host_->name;
  }

  /// Returns the reference to this actor as a message, like `ActorRef::to_message`: so that others can call it back.
  /// Works in the constructor too; `Cluster::find` then waits until that is done.
  [[nodiscard]] v1::ActorHandle own_handle() const;

  /// Returns how often the actor was restarted after a death or a move. Only state stored with `save` survives.
  [[nodiscard]] int restarts() const noexcept {
    return host_->restarts;
  }

  /// Stores `state` in the cluster for the next life of this actor, in place of the previous one: small data such as a
  /// counter or the name of a checkpoint. Does not wait. A moment later the node's agent has the state, so it survives
  /// the worker; after `limits::save_interval` it also survives the node and, for named and detached actors with
  /// `--store`, the broker.
  /// @returns `invalid_argument` above `limits::saved_bytes`, naming the size.
  template <ProtobufMessage T>
  Result<void> save(T state) {
    return save_payload(Payload::of(std::move(state)));
  }

  /// Says that a long method gets on, for `Options::stuck_after`: `save` and each item of a stream do so, too. On the
  /// actor's own thread.
  void alive();

  /// Returns what this actor saved last, in this life or an earlier one; nothing if it never did. Works in the
  /// constructor too.
  /// @returns `invalid_argument` if the saved state is of another type.
  template <ProtobufMessage T>
  [[nodiscard]] Result<std::optional<T>> saved() const {
    auto payload = saved_payload();
    if (payload.empty())
      return std::optional<T>{};
    GPUACTORS_LET(state, std::move(payload).template take_as<T>());
    return std::optional<T>{std::move(state)};
  }

  /// Ends this actor for good, also if it has restarts left: its work is done, or cannot go on. Returns at once. The
  /// running method goes on and is answered; calls that have returned a `Future`, and streams that were kept, have
  /// `limits::stop_grace` to be answered, but for those of concurrent methods (so finish the streams of watchers
  /// before); calls that wait, and later ones, fail with `actor_died` and `reason`. Then the destructor runs and the
  /// lease is free. The broker's list of ended actors and its events have the reason; if the broker is away, it hears
  /// of it when it is back. In a constructor, the actor starts and ends before its first call. The first reason counts,
  /// up to `limits::end_reason_bytes`. `Cluster::kill` is for others: an actor would wait for its own end.
  void end(std::string reason);

  /// Runs `function()` once on this actor's thread, behind the messages and functions that have come by now: the next
  /// step of work that goes on between calls. Also in the constructor. In its turn, `stop_requested` says whether the
  /// actor is to stop. An exception that leaves it ends the actor, as a crash would: it restarts if it has restarts
  /// left. Functions that have not run when the actor ends are destroyed before it.
  template <std::invocable F>
  void post(F function) const {
    static_cast<void>(own_thread().post(std::move(function)));
  }

  /// The same, not before `wait` has passed. A function that posts itself again is a timer.
  template <std::invocable F>
  void post_after(Duration wait, F function) const {
    static_cast<void>(own_thread().post_after(wait, std::move(function)));
  }

  /// Runs `function(T)` on this actor's thread with the value of `future`, and returns a future of what it returns: the
  /// next step of a method that waits for others, which serves other calls meanwhile. See `ActorThread::after`.
  ///
  ///   return after(peer_.call<Weights>("weights"), [this](const Weights& weights) { return use(weights); });
  template <class T, class F>
  [[nodiscard]] auto after(Future<T> future, F function) const {
    return own_thread().after(std::move(future), std::move(function));
  }

  /// Returns the handle by which callbacks on other threads do the same: those of `Future::then`, for example.
  [[nodiscard]] ActorThread own_thread() const {
    return ActorThread{host_->posts};
  }

  /// Returns the numbers that this actor publishes: `metrics().gauge("train_loss")`. Each life begins without any.
  [[nodiscard]] Metrics& metrics() noexcept;

  /// Returns the CAF actor that hosts this object, for CAF programs: send, monitor, link, spawn.
  [[nodiscard]] caf::event_based_actor& self() noexcept {
    return *host_->self;
  }

private:
  Result<void> save_payload(const Payload& state);
  [[nodiscard]] Payload saved_payload() const;

  detail::ActorHost* host_;
};

/// An actor that owns whole devices (one or more of one node), which nobody else uses.
class GPUActor : public Actor {
public:
  static constexpr Ownership ownership = Ownership::whole;
  using Actor::Actor;
};

/// An actor that owns a share of one device: an enforced memory quota and compute units to run on.
class FractionalGPUActor : public Actor {
public:
  static constexpr Ownership ownership = Ownership::fraction;
  using Actor::Actor;

  /// Returns the actual grant, after rounding to what the device can partition.
  [[nodiscard]] ContextGrant granted() {
    return gpu().granted();
  }
};

/// Checks that a request fits an actor type's ownership. Pure.
/// @returns `invalid_argument` with a request that would fit.
Result<void> check_ownership(Ownership ownership, Share gpus, std::uint64_t memory_bytes, const std::string& type);

} // namespace gpuactors

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
  /// The last saved state; empty if there is none. Guarded by the mutex, because concurrent methods read it.
  Payload saved;
  std::mutex saving;
  std::unique_ptr<Placement> placement;
  std::shared_ptr<HolderControl> control;
  std::shared_ptr<const ProcessServices> services;
  std::shared_ptr<Posts> posts;
  caf::event_based_actor* self = nullptr;
  /// Whether a method or a posted function runs.
  bool in_call = false;
  /// Whether the actor ends itself, and whether the message that ends it is under way.
  bool ends_itself = false;
  bool end_sent = false;

  /// Ends the actor when it has answered the calls that are in its mailbox now. Actor's thread.
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
/// Lifecycle: constructed -> serves its methods one message at a time -> destroyed; all three on the actor's own thread
/// (concurrent methods have a second one), never on CAF's scheduler, so methods may block, wait for the device and call
/// others. An ordinary CAF actor (`ActorRef::handle`, `self()`) hosts the object and adds deadlines, stop, counting and
/// errors to each method: an exception that leaves a method becomes the error `task_failed` of that call, and the actor
/// keeps working. Memory allocated through `gpu()` is freed when the actor ends, however it ends. Call members only on
/// the actor's own thread; const ones also in concurrent methods.
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

  /// Returns a reference to this actor as a message, like `ActorRef::to_message`, so that others can call it. Works in
  /// the constructor too; `Cluster::find` then waits until the constructor has returned.
  [[nodiscard]] v1::ActorHandle own_handle() const;

  /// Returns how often the actor was restarted after a death or a move. Only state stored with `save` survives.
  [[nodiscard]] int restarts() const noexcept {
    return host_->restarts;
  }

  /// Stores `state`, replacing the previous one, for the next life of this actor: small data such as a counter or the
  /// name of a checkpoint. Does not wait. The node's agent has it a moment later, so that it survives the worker; after
  /// `limits::save_interval` it also survives the node and, where the broker has a `--store`, the broker.
  /// @returns `invalid_argument` above `limits::saved_bytes`, naming the size.
  template <ProtobufMessage T>
  Result<void> save(T state) {
    return save_payload(Payload::of(std::move(state)));
  }

  /// Reports that a long method makes progress, so that the time of `Options::stuck_after` starts anew. `save` and
  /// stream items do so too. On the actor's own thread.
  void alive();

  /// Returns the state that this actor saved last, in this life or an earlier one; nothing if there is none. Works in
  /// the constructor too.
  /// @returns `invalid_argument` if the saved state is of another type.
  template <ProtobufMessage T>
  [[nodiscard]] Result<std::optional<T>> saved() const {
    auto payload = saved_payload();
    if (payload.empty())
      return std::optional<T>{};
    GPUACTORS_LET(state, std::move(payload).template take_as<T>());
    return std::optional<T>{std::move(state)};
  }

  /// Ends this actor for good, even if it has restarts left, because its work is done or cannot go on. Returns at once.
  /// The running method finishes and is answered. The actor then waits up to `limits::stop_grace` for calls that have
  /// returned a `Future` and for kept streams, but not for those of concurrent methods: finish watchers' streams first.
  /// Calls still waiting and later ones fail with `actor_died` and `reason`. Then the destructor runs and the lease is
  /// free. The list of ended actors and the event log show the reason; a broker that is away learns it when it returns.
  /// Called in a constructor, it lets the actor start, and ends it before its first call. Only the first reason counts,
  /// cut at `limits::end_reason_bytes`. Others use `Cluster::kill`, on which an actor would wait for its own end.
  void end(std::string reason);

  /// Queues `function()` to run once on this actor's thread, behind all messages and functions that have arrived by
  /// now: the next step of work between calls. Also in the constructor. `stop_requested` works in it. An exception that
  /// leaves it ends the actor like a crash, and the actor restarts if restarts are left. Functions that have not run
  /// when the actor ends are destroyed before it.
  template <std::invocable F>
  void post(F function) const {
    static_cast<void>(own_thread().post(std::move(function)));
  }

  /// Like `post`, but not before `wait` has passed. A function that posts itself again is a timer.
  template <std::invocable F>
  void post_after(Duration wait, F function) const {
    static_cast<void>(own_thread().post_after(wait, std::move(function)));
  }

  /// Runs `function(T)` on this actor's thread with the value of `future`, and returns a future of the function's
  /// result: the next step of a method that waits for others while the actor serves other calls. See
  /// `ActorThread::after`.
  ///
  ///   return after(peer_.call<Weights>("weights"), [this](const Weights& weights) { return use(weights); });
  template <class T, class F>
  [[nodiscard]] auto after(Future<T> future, F function) const {
    return own_thread().after(std::move(future), std::move(function));
  }

  /// Returns a handle with which callbacks on other threads, such as those of `Future::then`, run functions on this
  /// actor's thread.
  [[nodiscard]] ActorThread own_thread() const {
    return ActorThread{host_->posts};
  }

  /// Returns the metrics that this actor publishes: `metrics().gauge("train_loss")`. Each life begins without any.
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

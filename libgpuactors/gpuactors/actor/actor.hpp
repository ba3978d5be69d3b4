// Actors: what a user derives from to keep state, and device memory, between messages.
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

#include <gpuactors/actor/lease_info.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/device/context.hpp>
#include <gpuactors/wire/payload.hpp>

#include <memory>
#include <optional>
#include <string>

namespace caf {
class event_based_actor;
} // namespace caf

namespace gpuactors {

class CallFrame;
class ClusterLink;
class HolderControl;
class Placement;
class TensorStore;
struct ProcessServices;

/// Which part of a device an actor type takes.
enum class Ownership : std::uint8_t {
  /// Whatever the lease holds, nothing included.
  any,
  /// One or more whole devices.
  whole,
  /// A share below one device.
  fraction,
};

namespace detail {

/// What the hosting CAF actor knows; it outlives the user's object.
struct ActorHost {
  ActorId id;
  std::string name;
  std::string type;
  int restarts = 0;
  /// What an earlier life saved; empty without.
  Payload saved;
  std::unique_ptr<Placement> placement;
  std::shared_ptr<HolderControl> control;
  std::shared_ptr<const ProcessServices> services;
  caf::event_based_actor* self = nullptr;
  /// The call that runs now, null between calls.
  CallFrame* frame = nullptr;
};

} // namespace detail

/// What an actor is made with; passed on to the base class. Move-only, opaque.
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

/// An actor with any lease, also one without a device.
///
/// Lifecycle: constructed -> serves its methods one message at a time -> destroyed; all three on a thread of its own,
/// never on CAF's scheduler, so that it may block, wait for the device and call others. Around the object stands an
/// ordinary CAF actor (`ActorRef::handle`, `self()`), which adds deadlines, stop, counting and errors to each method:
/// an exception that leaves a method becomes the error `task_failed` of that call, and the actor goes on. What it
/// allocated through `gpu()` is freed when it ends, however it ends. Members: the actor's own thread.
class Actor {
public:
  static constexpr Ownership ownership = Ownership::any;

  explicit Actor(Init init) : host_(init.host_) {
    // nop
  }

  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  [[nodiscard]] ActorId id() const noexcept {
    return host_->id;
  }

  /// The name it was given; empty without one.
  [[nodiscard]] const std::string& name() const noexcept {
    return host_->name;
  }

  /// How often it was started anew after it had died or was moved. Of the state of earlier lives there is what they
  /// saved.
  [[nodiscard]] int restarts() const noexcept {
    return host_->restarts;
  }

  /// Has the cluster keep `state` for the next life of this actor, in place of what it kept before: small things such
  /// as a counter, or the name of a checkpoint. Does not wait: what was saved is safe once the node's agent has it, a
  /// moment later, and survives the worker; `limits::save_interval` later also the node and, for named and detached
  /// actors with `--store`, the broker.
  /// @returns `invalid_argument` above `limits::saved_bytes`, naming the size.
  template <ProtobufMessage T>
  Result<void> save(T state) {
    return save_payload(Payload::of(std::move(state)));
  }

  /// What this actor saved last, in this life or an earlier one; nothing when it never did. In the constructor too.
  /// @returns `invalid_argument` when it is of another type.
  template <ProtobufMessage T>
  [[nodiscard]] Result<std::optional<T>> saved() const {
    if (host_->saved.empty())
      return std::optional<T>{};
    GPUACTORS_LET(state, Payload{host_->saved}.take_as<T>());
    return std::optional<T>{std::move(state)};
  }

  [[nodiscard]] const LeaseInfo& lease() const noexcept;

  /// Number of devices that it owns, whole or in part.
  [[nodiscard]] std::size_t gpu_count() const noexcept;

  /// Its part of the i-th device. Asking for one that the lease does not hold is a programming error and throws
  /// std::out_of_range, which fails the call.
  [[nodiscard]] Context& gpu(std::size_t i = 0);

  /// Which units of a kind of accelerator ("gpus", "neuron_cores") the lease has; see `LeaseInfo`.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const {
    return lease().accelerator_ids(kind);
  }

  /// Whether the running call should end early: it was cancelled, or the actor is being stopped. Cheap.
  [[nodiscard]] bool stop_requested() const noexcept;

  /// When the caller of the running call gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Where tensors are shared: `tensors().put(...)`, `tensors().get(ref)`.
  [[nodiscard]] TensorStore& tensors() noexcept;

  /// The CAF actor around this object, for CAF programs: send, monitor, link, spawn.
  [[nodiscard]] caf::event_based_actor& self() noexcept {
    return *host_->self;
  }

  /// The way back to the cluster; see `Cluster::from`.
  [[nodiscard]] std::shared_ptr<ClusterLink> cluster_link() const;

private:
  Result<void> save_payload(const Payload& state);

  detail::ActorHost* host_;
};

/// An actor that owns whole devices (one or more of one node): nobody else is on them.
class GPUActor : public Actor {
public:
  static constexpr Ownership ownership = Ownership::whole;
  using Actor::Actor;
};

/// An actor that owns a share of one device: a memory quota that it cannot pass and compute units that it runs on.
class FractionalGPUActor : public Actor {
public:
  static constexpr Ownership ownership = Ownership::fraction;
  using Actor::Actor;

  /// What was really granted, after rounding to what the device can hold apart.
  [[nodiscard]] ContextGrant granted() {
    return gpu().granted();
  }
};

/// Checks that a request fits what an actor type owns. Pure.
/// @returns `invalid_argument`, saying what to ask for.
Result<void> check_ownership(Ownership ownership, Share gpus, std::uint64_t memory_bytes, const std::string& type);

} // namespace gpuactors

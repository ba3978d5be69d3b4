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
  int restarts = 0;
  /// State saved in an earlier life; empty if there is none.
  Payload saved;
  std::unique_ptr<Placement> placement;
  std::shared_ptr<HolderControl> control;
  std::shared_ptr<const ProcessServices> services;
  caf::event_based_actor* self = nullptr;
  /// The running call; null between calls.
  CallFrame* frame = nullptr;
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
/// thread, never on CAF's scheduler, so it may block, wait for the device and call others. An ordinary CAF actor
/// (`ActorRef::handle`, `self()`) hosts the object and adds deadlines, stop, counting and errors to each method: an
/// exception that leaves a method becomes the error `task_failed` of that call, and the actor keeps working. Memory
/// allocated through `gpu()` is freed when the actor ends, however it ends. Call members only on the actor's own
/// thread.
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

  /// Returns the actor's name; empty if it has none.
  [[nodiscard]] const std::string& name() const noexcept {
    return host_->name;
  }

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

  /// Returns what this actor saved last, in this life or an earlier one; nothing if it never did. Works in the
  /// constructor too.
  /// @returns `invalid_argument` if the saved state is of another type.
  template <ProtobufMessage T>
  [[nodiscard]] Result<std::optional<T>> saved() const {
    if (host_->saved.empty())
      return std::optional<T>{};
    GPUACTORS_LET(state, Payload{host_->saved}.take_as<T>());
    return std::optional<T>{std::move(state)};
  }

  [[nodiscard]] const LeaseInfo& lease() const noexcept;

  /// Returns the number of devices that the actor owns, whole or in part.
  [[nodiscard]] std::size_t gpu_count() const noexcept;

  /// Returns the actor's part of the i-th device. An index that the lease does not hold is a programming error and
  /// throws std::out_of_range, which fails the call.
  [[nodiscard]] Context& gpu(std::size_t i = 0);

  /// Returns the lease's units of a kind of accelerator ("gpus", "neuron_cores"); see `LeaseInfo`.
  [[nodiscard]] std::vector<int> accelerator_ids(std::string_view kind) const {
    return lease().accelerator_ids(kind);
  }

  /// Returns whether the running call should end early: it was cancelled, or the actor is being stopped. Cheap.
  [[nodiscard]] bool stop_requested() const noexcept;

  /// Returns when the caller of the running call gives up; `never` without a deadline.
  [[nodiscard]] TimePoint deadline() const noexcept;

  /// Returns the store for sharing tensors: `tensors().put(...)`, `tensors().get(ref)`.
  [[nodiscard]] TensorStore& tensors() noexcept;

  /// Returns the CAF actor that hosts this object, for CAF programs: send, monitor, link, spawn.
  [[nodiscard]] caf::event_based_actor& self() noexcept {
    return *host_->self;
  }

  /// Returns the link to the cluster for `Cluster::from`.
  [[nodiscard]] std::shared_ptr<ClusterLink> cluster_link() const;

private:
  Result<void> save_payload(const Payload& state);

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

// OwnedActor, OwnedGroup: an actor or a placement group that ends with the object that owns it.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/actor_ref.hpp>
#include <gpuactors/cluster/options.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace gpuactors {

namespace detail {

class ClusterCore;

/// The cluster of an owned actor or group. Null after the cluster's end, when nothing is left to be ended.
using OwnersCluster = std::weak_ptr<ClusterCore>;

/// Send the order to end an actor or remove a group, and do not wait. No effect if it has ended already.
void end_owned(const OwnersCluster& cluster, const ActorRef& actor) noexcept;
void end_owned(const OwnersCluster& cluster, const PlacementGroup& group) noexcept;

} // namespace detail

/// Owns an actor or placement group: destroying the owner kills the actor for good (`Cluster::kill`), or removes the
/// group with everything in it (`Cluster::remove_group`). The destructor sends the order and does not wait; call
/// `Cluster::kill` yourself if you must know when resources are free. Nothing is sent if the cluster was closed or the
/// broker no longer answers. Default-constructed and moved-from objects own nothing. One thread at a time.
template <class T>
class Owned {
public:
  Owned() = default;

  Owned(detail::OwnersCluster cluster, T value) : cluster_(std::move(cluster)), value_(std::move(value)), owns_(true) {
    // nop
  }

  Owned(Owned&& other) noexcept
    : cluster_(std::move(other.cluster_)), value_(std::move(other.value_)), owns_(std::exchange(other.owns_, false)) {
    // nop
  }

  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      cluster_ = std::move(other.cluster_);
      value_ = std::move(other.value_);
      owns_ = std::exchange(other.owns_, false);
    }
    return *this;
  }

  ~Owned() {
    reset();
  }

  /// Returns whether it owns an actor or group that it has not released or ended.
  explicit operator bool() const noexcept {
    return owns_;
  }

  [[nodiscard]] const T& operator*() const noexcept {
    return value_;
  }

  [[nodiscard]] const T* operator->() const noexcept {
    return &value_;
  }

  /// Gives up ownership and returns the actor or group, which lives on.
  [[nodiscard]] T release() noexcept {
    owns_ = false;
    return std::move(value_);
  }

  /// Ends the owned actor or group now.
  void reset() noexcept {
    if (std::exchange(owns_, false))
      detail::end_owned(cluster_, value_);
  }

private:
  detail::OwnersCluster cluster_;
  T value_{};
  bool owns_ = false;
};

using OwnedActor = Owned<ActorRef>;
using OwnedGroup = Owned<PlacementGroup>;

namespace detail {

template <class T>
struct TakeOver {
  OwnersCluster cluster;

  Owned<T> operator()(T made) const {
    return {cluster, std::move(made)};
  }
};

/// The state of a future that owns an actor or group while it is being created.
template <class T>
class OwningState : public TransformState<Owned<T>, T, TakeOver<T>> {
public:
  OwningState(std::shared_ptr<FutureState<T>> source, TakeOver<T> take_over)
    : TransformState<Owned<T>, T, TakeOver<T>>(std::move(source), take_over), cluster_(take_over.cluster) {
    // nop
  }

  OwningState(const OwningState&) = delete;
  OwningState& operator=(const OwningState&) = delete;

  /// Unless the value was taken, withdraws the request, and ends an actor or group that is created all the same.
  ~OwningState() override {
    if (taken_)
      return;
    try {
      const auto& source = this->source();
      source->give_up(Cancel::ask);
      source->on_ready([source, cluster = cluster_] {
        if (const auto made = source->take())
          end_owned(cluster, *made);
      });
    } catch (const std::exception&) { // no memory for that: it ends with the program
    }
  }

  Result<Owned<T>> take() override {
    taken_ = true;
    return TransformState<Owned<T>, T, TakeOver<T>>::take();
  }

private:
  const OwnersCluster cluster_;
  bool taken_ = false;
};

} // namespace detail

} // namespace gpuactors

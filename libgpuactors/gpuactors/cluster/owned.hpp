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

/// The cluster that something is owned in. Null after its end, when nothing is left to be ended.
using OwnersCluster = std::weak_ptr<ClusterCore>;

/// Send the order, and wait for nothing. No effect for what has ended.
void end_owned(const OwnersCluster& cluster, const ActorRef& actor) noexcept;
void end_owned(const OwnersCluster& cluster, const PlacementGroup& group) noexcept;

} // namespace detail

/// Owns what `Cluster::spawn` or `Cluster::create_group` returned: its end ends an actor for good, as `Cluster::kill`
/// does, and a group as `Cluster::remove_group` does, with all that runs in it. The order is sent and not waited for,
/// so that destroying never blocks; who needs to know when the resources are free calls `Cluster::kill`. If the cluster
/// was closed, or the broker does not answer any more, nothing is sent. Moved-from and default-made objects own
/// nothing. One thread at a time.
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

  /// Whether something was given to it that it has not given up or ended.
  explicit operator bool() const noexcept {
    return owns_;
  }

  [[nodiscard]] const T& operator*() const noexcept {
    return value_;
  }

  [[nodiscard]] const T* operator->() const noexcept {
    return &value_;
  }

  /// Gives up the ownership: what was owned lives on.
  [[nodiscard]] T release() noexcept {
    owns_ = false;
    return std::move(value_);
  }

  /// Ends what is owned now.
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

/// The state of a future that owns what is being made.
template <class T>
class OwningState : public TransformState<Owned<T>, T, TakeOver<T>> {
public:
  OwningState(std::shared_ptr<FutureState<T>> source, TakeOver<T> take_over)
    : TransformState<Owned<T>, T, TakeOver<T>>(std::move(source), take_over), cluster_(take_over.cluster) {
    // nop
  }

  OwningState(const OwningState&) = delete;
  OwningState& operator=(const OwningState&) = delete;

  /// Nobody has taken it: withdraws the request, and ends what comes all the same.
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

// BrokerWorld: what the broker's core needs from outside. The actor implements it with CAF and the real clock, the
// simulation with its own.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/contact.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/payload.hpp>

#include <cassert>
#include <cstdint>
#include <functional>
#include <utility>

namespace gpuactors {

/// Delivers one answer to the caller of a request. If it is destroyed without delivering, the caller waits until its
/// connection ends; with CAF 1.x it gets an error then, if the connection is still there.
template <class T>
class BrokerAnswer {
public:
  BrokerAnswer() = default;

  explicit BrokerAnswer(std::function<void(Result<T>)> deliver) : deliver_(std::move(deliver)) {
    // nop
  }

  BrokerAnswer(BrokerAnswer&&) noexcept = default;
  BrokerAnswer& operator=(BrokerAnswer&&) noexcept = default;

  /// Call at most once. It never calls the core.
  void deliver(Result<T> result) {
    const auto deliver = std::exchange(deliver_, nullptr);
    assert(deliver != nullptr);
    deliver(std::move(result));
  }

private:
  std::function<void(Result<T>)> deliver_;
};

/// A holder, and the control actor of its worker. Null where nodes have processes of their own: whoever asks gets the
/// address of the worker, and the handles from there.
struct HolderContacts {
  ContactPtr holder;
  ContactPtr worker;
};

/// A lease, and the holder that runs its tasks.
struct Grant {
  v1::Granted granted;
  HolderContacts contacts;
};

struct FoundActor {
  v1::ActorInfo info;
  HolderContacts contacts;
};

/// Reasons for which the core has itself woken.
enum class Wake : std::uint8_t {
  /// The ledger's next timeout.
  timeout,
  /// Nodes and clients of an earlier broker that have not come back by now are given up.
  settled,
  /// Changes are to be committed to the store.
  commit,
  /// Look again at the nodes that are being emptied.
  emptying,
  /// A reminder of an actor or a client is due.
  due,
  /// The turn is over after which leases make way again.
  turn,
  /// A heartbeat has passed: the broker looks whether it stood still itself.
  pulse,
  /// Nodes that were lost while the broker stood still, and have not come back by now, are given up.
  patience,
};

/// The core's surroundings. Used on the core's thread only.
class BrokerWorld {
public:
  BrokerWorld() = default;
  BrokerWorld(const BrokerWorld&) = delete;
  BrokerWorld& operator=(const BrokerWorld&) = delete;
  virtual ~BrokerWorld() = default;

  /// Monotonic time.
  [[nodiscard]] virtual TimePoint now() const = 0;

  /// Time since the machine was started, including the time for which it was suspended: `now` does not count that.
  [[nodiscard]] virtual Duration machine_time() const = 0;

  /// Nanoseconds since 1970.
  [[nodiscard]] virtual std::int64_t unix_ns() const = 0;

  // Orders to agents and clients. They arrive in order, or not at all when the connection is lost.
  virtual void post(const ContactPtr& agent, v1::StartRunner order) = 0;
  virtual void post(const ContactPtr& agent, v1::StartActor order, Payload config) = 0;
  virtual void post(const ContactPtr& agent, v1::EndLease order) = 0;
  virtual void post(const ContactPtr& client, v1::ReclaimLease order) = 0;

  /// Has `BrokerCore::wake(what)` called after `after`, never within this call.
  virtual void wake(Duration after, Wake what) = 0;

  /// Has `BrokerCore::peer_down(peer)` called once when the connection to `contact` is lost, never within this call.
  virtual void watch(const ContactPtr& contact, std::uint64_t peer) = 0;
};

} // namespace gpuactors

// What the broker's core needs of the world around it. The actor gives it CAF's actors and the clock, a simulation its
// own.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>
#include <gpuactors/wire/payload.hpp>

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace gpuactors {

/// Somebody whom messages can be sent to, or whose address is handed on. What it is knows only the world it is of.
class Contact {
public:
  Contact() = default;
  Contact(const Contact&) = delete;
  Contact& operator=(const Contact&) = delete;
  virtual ~Contact() = default;
};

/// Null: nobody, or one whose address is to be looked up.
using ContactPtr = std::shared_ptr<const Contact>;

/// The way back to one who asked, for one answer. One that is destroyed before has not answered, and its asker waits
/// until the connection ends.
template <class T>
class BrokerAnswer {
public:
  BrokerAnswer() = default;

  explicit BrokerAnswer(std::function<void(Result<T>)> deliver) : deliver_(std::move(deliver)) {
    // nop
  }

  BrokerAnswer(BrokerAnswer&&) noexcept = default;
  BrokerAnswer& operator=(BrokerAnswer&&) noexcept = default;

  /// Once.
  void deliver(Result<T> result) {
    const auto deliver = std::exchange(deliver_, nullptr);
    assert(deliver != nullptr);
    deliver(std::move(result));
  }

private:
  std::function<void(Result<T>)> deliver_;
};

/// A lease, and who runs its tasks.
struct Grant {
  v1::Granted granted;
  ContactPtr holder;
  ContactPtr control;
};

/// An actor, and where it is.
struct FoundActor {
  v1::ActorInfo info;
  ContactPtr handle;
  ContactPtr control;
};

/// What a core has itself woken for.
enum class Wake : std::uint8_t {
  /// The ledger's next time.
  timeout,
  /// Who has not come back by now will not.
  settled,
  /// What was kept is to be written.
  commit,
  /// Nodes are being emptied.
  emptying,
  /// An actor's or a client's time has come.
  due,
  /// Leases make way in turn.
  turn,
};

/// One thread: that of the core.
class BrokerWorld {
public:
  BrokerWorld() = default;
  BrokerWorld(const BrokerWorld&) = delete;
  BrokerWorld& operator=(const BrokerWorld&) = delete;
  virtual ~BrokerWorld() = default;

  /// Never goes back.
  [[nodiscard]] virtual TimePoint now() const = 0;

  /// Nanoseconds since 1970.
  [[nodiscard]] virtual std::int64_t unix_ns() const = 0;

  // Orders, to agents and clients. They arrive in their order, or not at all when the connection is lost.
  virtual void post(const ContactPtr& agent, v1::StartRunner order) = 0;
  virtual void post(const ContactPtr& agent, v1::StartActor order, Payload config) = 0;
  virtual void post(const ContactPtr& agent, v1::EndLease order) = 0;
  virtual void post(const ContactPtr& client, v1::ReclaimLease order) = 0;

  /// Has `BrokerCore::wake(what)` called after a while, never within this call.
  virtual void wake(Duration after, Wake what) = 0;

  /// Has `BrokerCore::peer_down(peer)` called once when the connection to `contact` is lost, never within this call.
  virtual void watch(const ContactPtr& contact, std::uint64_t peer) = 0;
};

} // namespace gpuactors

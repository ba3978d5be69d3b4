// RequestPort: sends requests from any thread and sees to it that each one is answered exactly once: by the reply, by
// an error, by its deadline, or because its receiver died (G6). It is the library's own table of pending calls: CAF's
// remoting drops requests to dead peers without a word.
#pragma once

#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/messages.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace gpuactors {

/// Somebody who waits for one reply. Exactly one of `on_reply` and `on_error` is called, once, on whichever thread the
/// answer comes from: be quick, do not block.
class PendingReply {
public:
  virtual ~PendingReply() = default;

  /// `content` may be moved from.
  virtual void on_reply(caf_version::Content& content) = 0;
  virtual void on_error(Error error) = 0;

  /// An item of a streamed reply, before the end.
  virtual void on_item(Payload item);

  /// Whether it is one of the calls of which `limits::calls_in_flight` may wait. What the library asks by itself is
  /// not: a program with as many calls under way must still be told that time is over, and find its broker again.
  [[nodiscard]] virtual bool counts() const noexcept {
    return true;
  }
};

/// A reply to what the library asks by itself.
class OwnReply : public PendingReply {
public:
  [[nodiscard]] bool counts() const noexcept override {
    return false;
  }
};

/// The sender of all requests of one client, an actor that has no thread and no mailbox.
///
/// Its enqueue handler runs on the replying thread and completes the waiting call there: a request costs no more
/// thread switches than one between two plain CAF actors. Any thread may use it. The table is split by request number,
/// so that threads rarely meet on one lock.
class RequestPort {
public:
  /// Asynchronous messages that are no reply and no stream item.
  using MessageHandler = std::function<void(caf_version::Content&)>;

  RequestPort(caf::actor_system& system, MessageHandler on_message);

  RequestPort(const RequestPort&) = delete;
  RequestPort& operator=(const RequestPort&) = delete;

  /// Closes the port.
  ~RequestPort();

  /// Sends by these from now on. Before other threads use the port.
  void use(std::shared_ptr<Lanes> lanes) {
    lanes_ = std::move(lanes);
  }

  /// Names one request of this port.
  using Ticket = std::uint64_t;

  /// Enters `pending` into the table; the answer must come by `deadline`. Follow with `deliver`.
  /// @param to whose death ends it. Null for a request that outlives its receivers: it is delivered again to the next
  ///        one, and that there was none at the end of a connection is no answer.
  /// @returns `queue_full` when it counts and `limits::calls_in_flight` are waiting, `unavailable` when the port is
  ///          closed.
  Result<Ticket> add(std::shared_ptr<PendingReply> pending, const caf::strong_actor_ptr& to, TimePoint deadline);

  /// Sends the request that `add` entered.
  template <class... Ts>
  void deliver(Ticket ticket, const caf::strong_actor_ptr& to, Ts&&... xs) {
    if (!send_message(lanes_.get(), to, self_, ticket, std::forward<Ts>(xs)...))
      abandon(ticket, Error{Errc::invalid_argument, "the message cannot be sent to another process: a required field "
                                                    "is missing, or it is too large"});
  }

  /// `add` and `deliver` in one; errors go to `pending`.
  template <class... Ts>
  void ask(const std::shared_ptr<PendingReply>& pending, const caf::strong_actor_ptr& to, TimePoint deadline,
           Ts&&... xs) {
    auto ticket = add(pending, to, deadline);
    if (ticket)
      deliver(*ticket, to, std::forward<Ts>(xs)...);
    else
      pending->on_error(ticket.error());
  }

  /// Sends a message that has no answer.
  template <class... Ts>
  void tell(const caf::strong_actor_ptr& to, Ts&&... xs) {
    send_message(lanes_.get(), to, self_, 0, std::forward<Ts>(xs)...);
  }

  /// The id under which a call can be cancelled, unique among clients.
  [[nodiscard]] CallId call_id(Ticket ticket) const noexcept {
    return CallId{table_->nonce << nonce_shift | ticket};
  }

  /// Answers a pending request with `error`; no effect when it was answered. A later reply is dropped.
  void abandon(Ticket ticket, Error error);

  /// Takes a pending request out of the table without an answer: a later reply is dropped.
  /// @returns false when it was answered already, or is being answered now.
  bool forget(Ticket ticket);

  /// Calls `due` after `wait`, on the port's timer thread, or `otherwise` when the port is closed before; neither once
  /// the ticket is forgotten.
  /// @returns `unavailable` when the port is closed; neither is called then.
  Result<Ticket> after(Duration wait, std::function<void()> due, std::function<void(Error)> otherwise = {});

  /// Fails every request that waits for `receiver`. Called when it is down.
  void fail_receiver(const caf::actor_addr& receiver, const Error& error);

  /// Arranges that requests to `receiver` fail when it dies: with `error`, or with `worker_died` when it was in another
  /// process and that is gone. `first` runs before they do, on the same thread: who marks the receiver as down there,
  /// and looks at the mark after each `add`, leaves no request waiting for a dead one.
  void watch(const caf::strong_actor_ptr& receiver, Error error, std::function<void()> first = {});

  [[nodiscard]] bool closed() const noexcept {
    return table_->closed;
  }

  /// Calls that wait for an answer now.
  [[nodiscard]] std::size_t pending() const;

  /// Fails all that is pending with `unavailable` and refuses what comes later. Idempotent.
  void close();

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return self_;
  }

private:
  struct Entry {
    std::shared_ptr<PendingReply> reply;
    caf::actor_addr receiver;
    TimePoint deadline;
  };

  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<Ticket, Entry> entries;
    std::multimap<TimePoint, Ticket> deadlines;
  };

  // What the enqueue handler and watchers share with the port; they may run while it is being destroyed.
  struct Table {
    std::array<Shard, 16> shards;
    MessageHandler on_message;
    std::mutex message_mutex;
    std::uint64_t nonce = 0;
    std::atomic<bool> closed{false};
    std::atomic<std::size_t> count{0};

    Shard& shard(Ticket ticket) {
      return shards.at(ticket % shards.size());
    }
    std::shared_ptr<PendingReply> take(Ticket ticket);
    bool outlives_receivers(Ticket ticket);
    void receive(caf::mailbox_element& element);
    void fail_receiver(const caf::actor_addr& receiver, const Error& error);
    TimePoint expire(TimePoint now);
  };

  void run_timer();

  static constexpr unsigned nonce_shift = 40;

  std::shared_ptr<Table> table_;
  std::shared_ptr<Lanes> lanes_;
  caf::actor companion_;
  caf::strong_actor_ptr self_;
  // Begins anywhere: a process that is taken for an earlier one, whose answers still come, does not know their numbers.
  std::atomic<Ticket> next_ticket_{1};

  std::mutex timer_mutex_;
  std::condition_variable timer_wake_;
  TimePoint timer_due_ = never;
  bool stopping_ = false;
  std::thread timer_;
};

} // namespace gpuactors

// RequestPort: sends requests from any thread and ensures that each one is answered exactly once: by the reply, by an
// error, by its deadline, or because its receiver died. The library keeps this table of pending calls itself because
// CAF's remoting silently drops requests to dead peers.
#pragma once

#include <gpuactors/wire/detail/receiver_lists.hpp>
#include <gpuactors/wire/lanes.hpp>
#include <gpuactors/wire/messages.hpp>
#include <gpuactors/wire/pending_reply.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace gpuactors {

/// The sender of all requests of one client, an actor that has no thread and no mailbox.
///
/// The port's enqueue handler runs on the replying thread and completes the waiting call there: a request costs no more
/// thread switches than one between two plain CAF actors. Any thread may use the port. The table is split by request
/// number, so that threads rarely contend for one lock.
class RequestPort {
public:
  /// Handles asynchronous messages other than replies and stream items.
  using MessageHandler = std::function<void(MessageContent&)>;

  /// Starts the port's timer; throws `std::system_error` without a thread for it.
  RequestPort(caf::actor_system& system, MessageHandler on_message);

  RequestPort(const RequestPort&) = delete;
  RequestPort& operator=(const RequestPort&) = delete;

  /// Closes the port, as `close` does.
  ~RequestPort();

  /// Makes the port send through `lanes`. Call it before other threads use the port.
  void use(std::shared_ptr<Lanes> lanes) {
    lanes_ = std::move(lanes);
  }

  using Ticket = RequestTicket;

  /// Enters `pending` into the table; the answer must come by `deadline`. Follow with `deliver`.
  /// @param to the receiver, whose death fails the request. Null for a request that outlives its receivers: the caller
  ///        delivers it again to the next receiver, and CAF's report that a receiver is down does not answer it.
  /// @returns `queue_full` if the request counts and `limits::calls_in_flight` are waiting, `unavailable` if the port
  ///          is closed.
  Result<Ticket> add(std::shared_ptr<PendingReply> pending, const caf::strong_actor_ptr& to, TimePoint deadline);

  /// Sends the request that `add` entered.
  template <class... Ts>
  void deliver(Ticket ticket, const caf::strong_actor_ptr& to, Ts&&... xs) {
    if (!send_message(lanes_.get(), to, self_, ticket, std::forward<Ts>(xs)...))
      abandon(ticket, Error{Errc::invalid_argument, "the message cannot be sent to another process: a required field "
                                                    "is missing, or it is too large"});
  }

  /// Combines `add` and `deliver`; errors go to `pending`.
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

  /// Returns the id under which a call can be cancelled; it is unique among clients.
  [[nodiscard]] CallId call_id(Ticket ticket) const noexcept {
    return CallId{table_->nonce << nonce_shift | ticket};
  }

  /// Answers a pending request with `error`; no effect if it was already answered. A later reply is dropped.
  void abandon(Ticket ticket, Error error);

  /// Takes a pending request out of the table without an answer: a later reply is dropped.
  /// @returns false if the request was already answered, or is being answered now.
  bool forget(Ticket ticket);

  /// Calls `due` after `wait`, on the port's timer thread, or `otherwise` if the port is closed earlier. Calls neither
  /// once the ticket is forgotten.
  /// @returns `unavailable` if the port is closed; neither function is called then.
  Result<Ticket> after(Duration wait, std::function<void()> due, std::function<void(Error)> otherwise = {});

  /// Fails every request that waits for `receiver`, which is down.
  void fail_receiver(const caf::actor_addr& receiver, const Error& error);

  /// Fails the requests to `receiver` when it dies: with `error`, or with `worker_died` if it was in another process
  /// and that process or the connection to it is lost. `first` runs before that on the same thread. A caller that marks
  /// the receiver as down in `first`, and checks the mark after each `add`, leaves no request waiting for a dead
  /// receiver.
  void watch(const caf::strong_actor_ptr& receiver, Error error, std::function<void()> first = {});

  /// Calls `function` with the reason when `actor` ends, on the thread that notices it, or at once if it has ended. Not
  /// called once the port is closed.
  void on_end(const caf::strong_actor_ptr& actor, std::function<void(const caf::error&)> function);

  [[nodiscard]] bool closed() const noexcept {
    return table_->closed;
  }

  /// Returns how many calls wait for an answer now.
  [[nodiscard]] std::size_t pending() const;

  /// Fails all pending requests with `unavailable` and refuses later ones. Waits for the functions that other threads
  /// call for this port now; none is called afterwards, so what they use may be destroyed. Idempotent. Do not call it
  /// from a function of `watch` or `on_end`.
  void close();

  [[nodiscard]] const caf::strong_actor_ptr& handle() const noexcept {
    return self_;
  }

private:
  struct Entry : detail::ReceiverLink {
    Entry(std::shared_ptr<PendingReply> pending, caf::actor_addr to, TimePoint due, Ticket number)
      : reply(std::move(pending)), receiver(std::move(to)), deadline(due), ticket(number) {
      // nop
    }

    std::shared_ptr<PendingReply> reply;
    caf::actor_addr receiver;
    TimePoint deadline;
    Ticket ticket;
  };

  struct Shard {
    mutable std::mutex mutex;
    /// Entries stay where they are: `by_receiver` points to them.
    std::unordered_map<Ticket, Entry> entries;
    detail::ReceiverLists by_receiver;
    std::multimap<TimePoint, Ticket> deadlines;
  };

  // State that the enqueue handler and the watchers share with the port: they may run while the port is being
  // destroyed.
  struct Table {
    std::array<Shard, 16> shards;
    MessageHandler on_message;
    std::mutex message_mutex;
    std::uint64_t nonce = 0;
    std::atomic<bool> closed{false};
    std::atomic<std::size_t> count{0};
    /// How many functions run now that were given to `on_end`.
    std::atomic<int> visitors{0};

    Shard& shard(Ticket ticket) {
      return shards.at(ticket % shards.size());
    }
    std::shared_ptr<PendingReply> take(Ticket ticket);
    bool outlives_receivers(Ticket ticket);
    void receive(caf::mailbox_element& element);
    void fail_receiver(const caf::actor_addr& receiver, const Error& error);
    /// Calls the function unless the port is closed.
    void visit(const std::function<void()>& function);
    void await_visitors();
    TimePoint expire(TimePoint now);
  };

  void run_timer();

  static constexpr unsigned nonce_shift = 40;

  std::shared_ptr<Table> table_;
  std::shared_ptr<Lanes> lanes_;
  caf::actor companion_;
  caf::strong_actor_ptr self_;
  // Starts at a random number: a process may be taken for an earlier one whose answers still arrive, and those must not
  // match its own tickets.
  std::atomic<Ticket> next_ticket_{1};

  std::mutex timer_mutex_;
  std::condition_variable timer_wake_;
  /// When the timer wakes; `never` while it looks for what is due. Changed with the mutex.
  std::atomic<TimePoint> timer_due_{never};
  bool stopping_ = false;
  std::thread timer_;
};

} // namespace gpuactors

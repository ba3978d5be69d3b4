// BrokerLink: a client's connection to the broker, whether the broker is in this process, elsewhere, or out of reach
// for a while. Internal to the cluster layer.
#pragma once

#include <gpuactors/wire/links.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// Keeps requests (`ask`) until they are answered, and repeats them after a lost connection; if the broker that is
/// there then is of a release that does not understand this one, they fail. Messages without an answer
/// (`tell`) are sent once: after a lost connection, the client's `Hello` says which leases it holds. Any thread.
class BrokerLink : public std::enable_shared_from_this<BrokerLink> {
public:
  /// @param hello makes the client's first message on each new connection.
  BrokerLink(RequestPort& port, std::function<v1::Hello()> hello);

  /// Uses a broker in this process, which stays as long as the process.
  void attach(caf::strong_actor_ptr broker);

  /// Connects to a broker elsewhere, at one of these addresses, again whenever the connection is lost.
  void connect(Links& links, const std::vector<Endpoint>& to);

  /// Waits until the broker has answered the first hello.
  /// @returns the reason if it has not within `timeout`.
  Result<void> wait_until_up(Duration timeout);

  /// Makes no more connections, and drops the broker's handle.
  void close();

  template <class Message, class... Ts>
  void ask(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, Message message, Ts... xs) {
    if (const auto local = local_one(); local != nullptr)
      return port_.ask(reply, local, deadline, std::move(message), std::move(xs)...);
    track(reply, deadline,
          [this, message = std::move(message),
           ... xs = std::move(xs)](RequestPort::Ticket ticket, const caf::strong_actor_ptr& to, bool again) mutable {
            if constexpr (requires { message.set_again(true); })
              message.set_again(again);
            port_.deliver(ticket, to, message, xs...);
          });
  }

  template <class Message>
  void tell(Message message) {
    const std::lock_guard lock{tell_mutex_};
    const auto to = greeted_one();
    if (to != nullptr)
      port_.tell(to, std::move(message));
  }

private:
  using Send = std::function<void(RequestPort::Ticket, const caf::strong_actor_ptr&, bool again)>;

  struct Open {
    Send send;
    /// It has left, on this connection or an earlier one: the broker may know it.
    bool sent = false;
  };

  class Tracked;
  class HelloReply;

  void track(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, Send send);
  /// With the lock: sends an unanswered request.
  void send(RequestPort::Ticket ticket, Open& open);
  /// @param ticket is read under the lock: the answer may come before the asking thread has set it.
  void answered(const RequestPort::Ticket& ticket);
  /// The broker of this process; null if the broker is elsewhere or the link is closed.
  caf::strong_actor_ptr local_one() {
    const std::lock_guard lock{mutex_};
    return local_;
  }

  /// The broker that was sent the hello, whether it has answered or not; null without a connection.
  caf::strong_actor_ptr greeted_one();
  void changed(Result<caf::strong_actor_ptr> handle);
  void greeted(const caf::strong_actor_ptr& handle);
  void refused(const caf::strong_actor_ptr& handle, Error error);
  /// With the lock: why there is no broker at one of the addresses.
  void set_down(Error why);

  RequestPort& port_;
  std::function<v1::Hello()> hello_;
  /// Orders `tell` behind the hello. Locked before `mutex_`; `greeted` and `refused` do not lock it.
  std::mutex tell_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  caf::strong_actor_ptr local_;
  caf::strong_actor_ptr greeting_;
  /// Same as `greeting_` once the broker has answered the hello.
  caf::strong_actor_ptr handle_;
  std::shared_ptr<Redial> redial_;
  std::optional<Error> why_down_;
  /// How many addresses there are, and how many of them, one after the other, had errors that waiting does not cure.
  std::size_t addresses_ = 1;
  std::size_t given_up_ = 0;
  /// There is a connection; the broker may not have answered the hello yet.
  bool connected_ = false;
  // Unanswered requests by ticket, and thus in the order in which they were made.
  std::map<RequestPort::Ticket, Open> open_;
};

} // namespace gpuactors::detail

// BrokerLink: how a client asks the broker, whether it is in this process, elsewhere, or away for a while. Internal to
// the cluster layer.
#pragma once

#include <gpuactors/wire/links.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// Keeps what was asked until it is answered, and asks again when the connection was lost in between. What is told is
/// told once: after a lost connection the client's `Hello` says what it holds. Any thread.
class BrokerLink : public std::enable_shared_from_this<BrokerLink> {
public:
  /// @param hello what the client says first on each new connection.
  BrokerLink(RequestPort& port, std::function<v1::Hello()> hello);

  /// The broker is in this process and stays as long as it does.
  void attach(caf::strong_actor_ptr broker);

  /// The broker is elsewhere: connects, and again whenever the connection is lost.
  void connect(Links& links, const Endpoint& to);

  /// Waits until the broker has answered the first hello.
  /// @returns why not, after `timeout`.
  Result<void> wait_until_up(Duration timeout);

  /// No connection is made any more. The link lets go of the broker.
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
  class Tracked;
  class HelloReply;

  void track(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, Send send);
  void answered(RequestPort::Ticket ticket);
  /// The broker of this process; null when it is elsewhere or the link is closed.
  caf::strong_actor_ptr local_one() {
    const std::lock_guard lock{mutex_};
    return local_;
  }

  /// Who was said hello to, whether it has answered yet or not; null without a connection.
  caf::strong_actor_ptr greeted_one();
  void changed(Result<caf::strong_actor_ptr> handle);
  void greeted(const caf::strong_actor_ptr& handle);
  void refused(const caf::strong_actor_ptr& handle, Error error);

  RequestPort& port_;
  std::function<v1::Hello()> hello_;
  /// Taken before the other one, and not held by who calls back.
  std::mutex tell_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  caf::strong_actor_ptr local_;
  caf::strong_actor_ptr greeting_;
  /// The same once it has answered.
  caf::strong_actor_ptr handle_;
  std::shared_ptr<Redial> redial_;
  std::optional<Error> why_down_;
  /// There is a connection; the broker may not have answered its hello.
  bool connected_ = false;
  // By ticket, so in the order in which they were asked.
  std::map<RequestPort::Ticket, Send> open_;
};

} // namespace gpuactors::detail

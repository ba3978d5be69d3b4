#include <gpuactors/cluster/detail/broker_link.hpp>

#include <fmt/format.h>

#include <vector>

namespace gpuactors::detail {

/// Removes a request from `open_` when it is answered.
class BrokerLink::Tracked : public PendingReply {
public:
  Tracked(std::weak_ptr<BrokerLink> link, std::shared_ptr<PendingReply> reply)
    : link_(std::move(link)), reply_(std::move(reply)) {
    // nop
  }

  RequestPort::Ticket ticket = 0;

  void on_reply(MessageContent& content) override {
    forget();
    reply_->on_reply(content);
  }

  void on_error(Error error) override {
    forget();
    reply_->on_error(std::move(error));
  }

  [[nodiscard]] bool counts() const noexcept override {
    return reply_->counts();
  }

  [[nodiscard]] Error overdue() const override {
    return reply_->overdue();
  }

  [[nodiscard]] bool knows_not_begun() const noexcept override {
    return reply_->knows_not_begun();
  }

private:
  void forget() {
    if (const auto link = link_.lock())
      link->answered(ticket);
  }

  std::weak_ptr<BrokerLink> link_;
  std::shared_ptr<PendingReply> reply_;
};

class BrokerLink::HelloReply : public OwnReply {
public:
  HelloReply(std::weak_ptr<BrokerLink> link, caf::strong_actor_ptr handle)
    : link_(std::move(link)), handle_(std::move(handle)) {
    // nop
  }

  void on_reply(MessageContent&) override {
    if (const auto link = link_.lock())
      link->greeted(handle_);
  }

  void on_error(Error error) override {
    if (const auto link = link_.lock())
      link->refused(handle_, std::move(error));
  }

private:
  std::weak_ptr<BrokerLink> link_;
  caf::strong_actor_ptr handle_;
};

BrokerLink::BrokerLink(RequestPort& port, std::function<v1::Hello()> hello) : port_(port), hello_(std::move(hello)) {
  // nop
}

void BrokerLink::attach(caf::strong_actor_ptr broker) {
  {
    const std::lock_guard lock{mutex_};
    local_ = broker;
    greeting_ = broker;
  }
  port_.ask(std::make_shared<HelloReply>(weak_from_this(), broker), broker, never, hello_(), port_.handle());
}

void BrokerLink::connect(Links& links, const std::vector<Endpoint>& to) {
  addresses_ = to.size();
  redial_ = std::make_shared<Redial>(links, to, [weak = weak_from_this()](Result<caf::strong_actor_ptr> handle) {
    if (const auto self = weak.lock())
      self->changed(std::move(handle));
  });
  redial_->start();
}

Result<void> BrokerLink::wait_until_up(Duration timeout) {
  std::unique_lock lock{mutex_};
  // Errors that waiting does not cure, such as missing trust, end the wait, if all addresses have one.
  const auto decided = [this] { return handle_ != nullptr || given_up_ >= addresses_; };
  if (wake_.wait_until(lock, deadline_after(Clock::now(), timeout), decided) && handle_ != nullptr)
    return {};
  if (why_down_)
    return fail(*why_down_);
  return fail(Errc::unavailable,
              fmt::format("after {:.1f} s {}", to_seconds(timeout),
                          connected_ ? "there is a connection, but the broker has not answered; it may be overloaded"
                                     : "there is no connection"));
}

void BrokerLink::close() {
  if (redial_ != nullptr)
    redial_->stop();
  const std::lock_guard lock{mutex_};
  handle_ = nullptr;
  greeting_ = nullptr;
  local_ = nullptr;
  open_.clear();
}

void BrokerLink::track(const std::shared_ptr<PendingReply>& reply, TimePoint deadline, Send send) {
  auto tracked = std::make_shared<Tracked>(weak_from_this(), reply);
  std::optional<Error> error;
  {
    // An answer has to wait for the lock, so it finds the request in `open_`.
    const std::lock_guard lock{mutex_};
    // The ticket has no receiver: when the connection is lost, CAF's error must not answer the request, which is
    // repeated.
    const auto ticket = port_.add(tracked, nullptr, deadline);
    if (ticket) {
      tracked->ticket = *ticket;
      auto& kept = open_.emplace(*ticket, Open{std::move(send)}).first->second;
      if (handle_ != nullptr)
        this->send(*ticket, kept);
    } else {
      error = ticket.error();
    }
  }
  if (error)
    reply->on_error(std::move(*error));
}

void BrokerLink::send(RequestPort::Ticket ticket, Open& open) {
  open.send(ticket, handle_, std::exchange(open.sent, true));
}

void BrokerLink::answered(const RequestPort::Ticket& ticket) {
  const std::lock_guard lock{mutex_};
  open_.erase(ticket);
}

caf::strong_actor_ptr BrokerLink::greeted_one() {
  const std::lock_guard lock{mutex_};
  return local_ != nullptr ? local_ : greeting_;
}

void BrokerLink::changed(Result<caf::strong_actor_ptr> handle) {
  if (handle) {
    // From here on, `tell` sends to this broker, after the hello.
    const std::lock_guard telling{tell_mutex_};
    {
      const std::lock_guard lock{mutex_};
      connected_ = true;
      greeting_ = *handle;
      why_down_.reset();
    }
    port_.ask(std::make_shared<HelloReply>(weak_from_this(), *handle), *handle,
              deadline_after(Clock::now(), limits::link_timeout), hello_(), port_.handle());
    return;
  }
  std::vector<RequestPort::Ticket> hopeless;
  {
    const std::lock_guard lock{mutex_};
    handle_ = nullptr;
    greeting_ = nullptr;
    connected_ = false;
    set_down(handle.error());
    // A broker of a release that this one does not understand does not get better with time.
    if (handle.error().code() == Errc::unsupported && given_up_ >= addresses_)
      for (const auto& [ticket, open] : open_)
        hopeless.push_back(ticket);
  }
  for (const auto ticket : hopeless)
    port_.abandon(ticket, handle.error());
}

void BrokerLink::greeted(const caf::strong_actor_ptr& handle) {
  const std::lock_guard lock{mutex_};
  if (handle != greeting_)
    return;
  handle_ = handle;
  given_up_ = 0;
  for (auto& [ticket, open] : open_)
    send(ticket, open);
  wake_.notify_all();
}

void BrokerLink::refused(const caf::strong_actor_ptr& handle, Error error) {
  if (error.code() == Errc::deadline_exceeded || error.code() == Errc::actor_died)
    error = Error{Errc::unavailable, "there was a connection, but the broker has not answered; it may be overloaded"};
  {
    const std::lock_guard lock{mutex_};
    if (handle != greeting_)
      return; // the refusal belongs to an earlier connection
    // Where it is dialled again, `changed` is told.
    if (redial_ == nullptr)
      set_down(error);
  }
  if (redial_ != nullptr)
    redial_->again(std::move(error));
}

void BrokerLink::set_down(Error why) {
  given_up_ = why.remedy() == Remedy::give_up ? given_up_ + 1 : 0;
  why_down_ = std::move(why);
  wake_.notify_all();
}

} // namespace gpuactors::detail

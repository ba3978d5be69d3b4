// Futures for the answers to control requests. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/wire/closed.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <utility>

namespace gpuactors::detail {

/// Until when the broker says that a time was over, if it is there.
inline TimePoint answered_by(TimePoint begin, Duration time) {
  return deadline_after(deadline_after(begin, time), limits::link_timeout);
}

/// The error of a request that the broker has not answered in time.
inline Error broker_overdue() {
  return Error{Errc::deadline_exceeded, "the broker has not answered in time: it is away, or busy"};
}

/// The error of a request whose answer nobody waits for any more; the broker does what it was asked to.
inline Error no_longer_awaited() {
  return Error{Errc::cancelled, "the future was cancelled; what was asked for is done all the same"};
}

/// Completes a future with the message in the answer.
template <class Message>
class MessageReply : public FutureState<Message>, public PendingReply {
public:
  void on_reply(MessageContent& content) override {
    this->complete(std::move(content.get_mutable_as<Message>(0)));
  }

  void on_error(Error error) override {
    this->complete(fail(std::move(error)));
  }

  [[nodiscard]] Error overdue() const override {
    return broker_overdue();
  }

  void give_up(Cancel) override {
    this->complete(fail(no_longer_awaited()));
  }
};

/// For a request whose answer nobody waits for. It finds room in the port however many calls are in flight: otherwise
/// what is to be ended would stay.
class UnheardReply : public OwnReply {
public:
  void on_reply(MessageContent&) override {
    // nop
  }

  void on_error(Error) override {
    // nop
  }
};

/// Completes a future without a value.
class DoneReply : public FutureState<void>, public PendingReply {
public:
  void on_reply(MessageContent&) override {
    complete({});
  }

  void on_error(Error error) override {
    complete(fail(std::move(error)));
  }

  [[nodiscard]] Error overdue() const override {
    return broker_overdue();
  }

  void give_up(Cancel) override {
    complete(fail(no_longer_awaited()));
  }
};

/// Sends the broker a request that is answered with Done.
template <class Message>
Future<void> ask_done(ClusterCore& core, TimePoint deadline, Message message) {
  auto reply = std::make_shared<DoneReply>();
  reply->executor = core.executor();
  core.ask_broker(reply, deadline, std::move(message));
  return Future<void>{std::move(reply)};
}

/// The answer to a request that creates something for the program, such as an actor. Cancelling it withdraws the
/// request: it is not served, or undone.
template <class T>
class MadeReply : public FutureState<T>, public PendingReply {
public:
  /// @param request the request's number; 0 if the request creates nothing.
  MadeReply(std::weak_ptr<ClusterCore> core, std::uint64_t request) : core_(std::move(core)), request_(request) {
    // nop
  }

  void on_error(Error error) override {
    // It may be served yet, for nobody.
    const bool is_late = error.code() == Errc::deadline_exceeded;
    if (this->complete(fail(std::move(error))) && is_late)
      undo();
  }

  [[nodiscard]] Error overdue() const override {
    return Error{
        Errc::deadline_exceeded,
        "the broker has not answered in the time that the request gives it: it is away, or busy; the request is "
        "withdrawn"};
  }

  void cancel(Cancel) override {
    if (this->complete(fail(Errc::cancelled, "the request was withdrawn")))
      undo();
  }

protected:
  [[nodiscard]] const std::weak_ptr<ClusterCore>& core() const noexcept {
    return core_;
  }

  /// What the request has created is of no use to this program.
  virtual void on_unreachable(Error error) {
    if (this->complete(fail(std::move(error))))
      undo();
  }

private:
  void undo() {
    const auto core = core_.lock();
    if (core == nullptr || request_ == 0)
      return;
    v1::Withdraw message;
    message.set_client(core->client());
    message.set_client_request(request_);
    // Sent as a request with an answer: `BrokerLink` repeats unanswered requests, in order, after a lost connection.
    core->ask_broker(std::make_shared<UnheardReply>(), never, std::move(message));
  }

  std::weak_ptr<ClusterCore> core_;
  std::uint64_t request_;
};

} // namespace gpuactors::detail

// The answers to control requests, as futures. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/detail/core.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <memory>
#include <utility>

namespace gpuactors::detail {

/// Completes a future with the message that is the answer.
template <class Message>
class MessageReply : public FutureState<Message>, public PendingReply {
public:
  void on_reply(caf_version::Content& content) override {
    this->complete(std::move(content.get_mutable_as<Message>(0)));
  }

  void on_error(Error error) override {
    this->complete(fail(std::move(error)));
  }
};

/// Completes a future that says no more than that it was done.
class DoneReply : public FutureState<void>, public PendingReply {
public:
  void on_reply(caf_version::Content&) override {
    complete({});
  }

  void on_error(Error error) override {
    complete(fail(std::move(error)));
  }
};

/// The answer to a request that makes something which the program owns then. Withdrawn, it is not made, or undone.
template <class T>
class MadeReply : public FutureState<T>, public PendingReply {
public:
  /// @param request its number; 0 if nothing is made.
  MadeReply(std::weak_ptr<ClusterCore> core, std::uint64_t request) : core_(std::move(core)), request_(request) {
    // nop
  }

  void on_error(Error error) override {
    this->complete(fail(std::move(error)));
  }

  void cancel(Cancel) override {
    if (this->complete(fail(Errc::cancelled, "the request was withdrawn")))
      undo();
  }

protected:
  [[nodiscard]] const std::weak_ptr<ClusterCore>& core() const noexcept {
    return core_;
  }

private:
  void undo() {
    const auto core = core_.lock();
    if (core == nullptr || request_ == 0)
      return;
    v1::Withdraw message;
    message.set_client(core->client());
    message.set_client_request(request_);
    // With an answer: what has none yet is asked again, in the same order, when the connection was lost.
    core->ask_broker(std::make_shared<DoneReply>(), never, std::move(message));
  }

  std::weak_ptr<ClusterCore> core_;
  std::uint64_t request_;
};

} // namespace gpuactors::detail

// The answer to a control request that is one message. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/future.hpp>
#include <gpuactors/wire/request_port.hpp>

namespace gpuactors::detail {

/// Completes a future with it.
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

} // namespace gpuactors::detail

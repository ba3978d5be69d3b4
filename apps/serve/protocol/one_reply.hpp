// The answer of an ordinary model where replies of a generative one are expected.
#pragma once

#include <apps/serve/service.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace serve {

/// One reply, and the end. Any thread.
class OneReply final : public Service::Replies, public std::enable_shared_from_this<OneReply> {
public:
  static std::shared_ptr<OneReply> of(Service& service, InferRequest request) {
    const auto result = std::make_shared<OneReply>();
    auto ticket = service.infer(std::move(request),
                                [result](gpuactors::Result<InferReply> reply) { result->answer(std::move(reply)); });
    const std::lock_guard lock{result->mutex_};
    // Afterwards it would be a circle: the model's handle may know the one that answers.
    if (!result->answered_)
      result->ticket_ = std::move(ticket);
    return result;
  }

  void next(Next done) override {
    std::optional<gpuactors::Result<InferReply>> reply;
    {
      const std::lock_guard lock{mutex_};
      if (!reply_ && !answered_) {
        wanted_ = std::move(done);
        return;
      }
      reply = std::exchange(reply_, std::nullopt);
    }
    // The second time there is none.
    if (reply)
      pass_on(done, std::move(*reply));
    else
      done(std::optional<InferReply>{});
  }

  void cancel() noexcept override {
    std::shared_ptr<Service::Ticket> ticket;
    {
      const std::lock_guard lock{mutex_};
      ticket = ticket_;
    }
    if (ticket)
      ticket->cancel();
  }

private:
  void answer(gpuactors::Result<InferReply> reply) {
    Next wanted;
    {
      const std::lock_guard lock{mutex_};
      answered_ = true;
      ticket_ = nullptr;
      wanted = std::exchange(wanted_, nullptr);
      if (!wanted)
        reply_ = std::move(reply);
    }
    if (wanted)
      pass_on(wanted, std::move(reply));
  }

  static void pass_on(const Next& done, gpuactors::Result<InferReply> reply) {
    if (reply)
      done(std::optional<InferReply>{std::move(*reply)});
    else
      done(gpuactors::fail(reply.error()));
  }

  std::mutex mutex_;
  std::shared_ptr<Service::Ticket> ticket_;
  Next wanted_;
  std::optional<gpuactors::Result<InferReply>> reply_;
  bool answered_ = false;
};

} // namespace serve

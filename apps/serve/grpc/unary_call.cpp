#include <apps/serve/grpc/message_call.hpp>
#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>

#include <grpcpp/server_context.h>

#include <mutex>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Result;

namespace {

/// Who answers first, the model or the client that gives up, ends the call.
class UnaryCall final : public MessageCall {
public:
  using MessageCall::MessageCall;

private:
  /// What outlives the call when the client gives up first.
  struct Link {
    std::mutex mutex;
    /// Null as soon as somebody ends the call.
    UnaryCall* call = nullptr;
    std::shared_ptr<Service::Ticket> ticket;
    bool cancelled = false;
  };

  void on_message() override {
    auto request = read_request(context(), message(), state()->front->held).request;
    clear_message();
    if (!request)
      return refuse(status_of(request.error()));
    const auto link = link_;
    {
      const std::lock_guard lock{link->mutex};
      link->call = this;
    }
    // The call may be over when this returns: only the link may be used then.
    auto ticket = state()->front->service.infer(std::move(*request),
                                                [link](Result<InferReply> reply) { finish(*link, std::move(reply)); });
    bool cancelled = false;
    {
      const std::lock_guard lock{link->mutex};
      cancelled = link->cancelled;
      if (link->call != nullptr)
        link->ticket = ticket;
    }
    if (cancelled && ticket)
      ticket->cancel();
  }

  static UnaryCall* take(Link& link) {
    const std::lock_guard lock{link.mutex};
    link.ticket = nullptr;
    return std::exchange(link.call, nullptr);
  }

  static void finish(Link& link, Result<InferReply> reply) {
    if (auto* call = take(link))
      call->finish(std::move(reply));
  }

  void finish(Result<InferReply> reply) {
    if (!reply)
      return refuse(status_of(reply.error()));
    auto share = hold(*reply, state()->front->held);
    if (!share)
      return refuse(status_of(share.error()));
    answer(response_of(*reply), std::move(*share));
  }

  void OnCancel() override {
    std::shared_ptr<Service::Ticket> ticket;
    {
      const std::lock_guard lock{link_->mutex};
      link_->cancelled = true;
      ticket = link_->ticket;
    }
    if (ticket)
      ticket->cancel();
    if (take(*link_) != nullptr)
      refuse({grpc::StatusCode::CANCELLED, "the client has given up the call"});
  }

  std::shared_ptr<Link> link_ = std::make_shared<Link>();
  Counting open_{state()->open_inferences};
};

} // namespace

grpc::Status counted(const GrpcState& state, grpc::Status status) {
  state.front->grpc_answers.add(status.error_code());
  return status;
}

Rights rights_of(const GrpcState& state, const grpc::CallbackServerContext& context) {
  const auto tokens = state.front->tokens.get();
  if (!tokens->required())
    return Rights::all;
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  return found == metadata.end() ? Rights::none : tokens->rights_of({found->second.data(), found->second.size()});
}

bool is_allowed(const GrpcState& state, const grpc::CallbackServerContext& context) {
  return rights_of(state, context) != Rights::none;
}

grpc::Status token_status() {
  return {grpc::StatusCode::UNAUTHENTICATED, std::string{token_wanted}};
}

CallReactor* infer_over_grpc(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context) {
  if (!is_allowed(*state, context))
    return refused_call(state, token_status());
  auto* call = new UnaryCall{state, context};
  call->receive(Caller::known, state->front->options.limits.request_bytes);
  return call;
}

} // namespace serve

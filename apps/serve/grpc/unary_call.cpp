#include <apps/serve/grpc/calls.hpp>
#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>

#include <grpcpp/server_context.h>

#include <mutex>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Result;

namespace {

/// Lives until gRPC says that it is done. Who answers first, the model or the client that gives up, ends the call.
class UnaryCall final : public grpc::ServerUnaryReactor {
public:
  UnaryCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
    : state_(std::move(state)), context_(context), response_(response) {
    // nop
  }

  void start(const grpc::ByteBuffer& buffer) {
    auto request = read_request(context_, buffer, state_->front->held);
    if (!request)
      return Finish(counted(*state_, status_of(request.error())));
    const auto link = link_;
    link->call = this;
    // The call may be over when this returns: only the link may be used then.
    auto ticket = state_->front->service.infer(std::move(*request),
                                               [link](Result<InferReply> reply) { answer(*link, std::move(reply)); });
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

private:
  /// What outlives the call when the client gives up first.
  struct Link {
    std::mutex mutex;
    /// Null as soon as somebody ends the call.
    UnaryCall* call = nullptr;
    std::shared_ptr<Service::Ticket> ticket;
    bool cancelled = false;
  };

  static UnaryCall* take(Link& link) {
    const std::lock_guard lock{link.mutex};
    link.ticket = nullptr;
    return std::exchange(link.call, nullptr);
  }

  static void answer(Link& link, Result<InferReply> reply) {
    if (auto* call = take(link))
      call->finish(std::move(reply));
  }

  void finish(Result<InferReply> reply) {
    if (!reply)
      return Finish(counted(*state_, status_of(reply.error())));
    auto share = hold(*reply, state_->front->held);
    if (!share)
      return Finish(counted(*state_, status_of(share.error())));
    share_ = std::move(*share);
    response_ = response_of(*reply);
    writing_ = true;
    state_->writes.begin(context_, response_.Length());
    Finish(counted(*state_, grpc::Status::OK));
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
      Finish(counted(*state_, {grpc::StatusCode::CANCELLED, "the client has given up the call"}));
  }

  void OnDone() override {
    if (writing_)
      state_->writes.end(context_);
    delete this;
  }

  std::shared_ptr<GrpcState> state_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  std::shared_ptr<Link> link_ = std::make_shared<Link>();
  HeldShare share_;
  bool writing_ = false;
};

} // namespace

grpc::Status counted(const GrpcState& state, grpc::Status status) {
  state.front->grpc_answers.add(status.error_code());
  return status;
}

bool is_allowed(const GrpcState& state, const grpc::CallbackServerContext& context) {
  if (!state.front->tokens.required())
    return true;
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  return found != metadata.end() && state.front->tokens.accept({found->second.data(), found->second.size()});
}

grpc::Status token_status() {
  return {grpc::StatusCode::UNAUTHENTICATED, std::string{token_wanted}};
}

grpc::ServerUnaryReactor* infer_over_grpc(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context,
                                          const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  if (!is_allowed(*state, context)) {
    auto* refused = context.DefaultReactor();
    refused->Finish(counted(*state, token_status()));
    return refused;
  }
  auto* call = new UnaryCall{state, context, response};
  call->start(request);
  return call;
}

} // namespace serve

#include <apps/serve/grpc/message_call.hpp>
#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>

#include <grpcpp/server_context.h>

#include <iterator>
#include <mutex>
#include <string>
#include <utility>

namespace serve {

using gpuactors::Result;

namespace {

/// Who answers first, the model or the client that gives up, ends the call.
class UnaryCall final : public MessageCall {
public:
  UnaryCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context)
    : MessageCall(std::move(state), context),
      line_(begin_line(*UnaryCall::state(), context, begin_request_id(*UnaryCall::state(), context), model_infer)) {
    // nop
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

  void on_message() override {
    line_->about.in_bytes = message().Length();
    auto request = read_request(context(), message(), line_->about.trace, state()->front->held).request;
    clear_message();
    if (!request)
      return refuse(status_of(request.error()));
    line_->about.model = request->model;
    line_->about.version = request->version;
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
    line_->about.version = reply->version;
    line_->about.times = reply->times;
    auto share = hold(*reply, state()->front->held);
    if (!share)
      return refuse(status_of(share.error()));
    answer(response_of(*reply), std::move(*share));
  }

  void on_end(const grpc::Status& status, std::size_t bytes) override {
    line_->about.out_bytes = bytes;
    line_->end(status.error_code());
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
  const std::unique_ptr<RequestLine> line_;
  Counting open_{state()->open_inferences};
};

constexpr const char* request_id_key = "x-request-id";
constexpr const char* trace_key = "traceparent";

/// "127.0.0.1:40000" of "ipv4:127.0.0.1:40000", "[::1]:40000" of "ipv6:%5B::1%5D:40000".
std::string address_of(const std::string& peer) {
  std::string address{peer};
  for (const auto& [before, after] :
       {std::pair{"ipv4:", ""}, std::pair{"ipv6:", ""}, std::pair{"%5B", "["}, std::pair{"%5D", "]"}})
    if (const auto at = address.find(before); at != std::string::npos)
      address.replace(at, std::string_view{before}.size(), after);
  return address;
}

/// The span of a request, as a part of what its client says.
gpuactors::OpenSpan begin_call_span(const grpc::CallbackServerContext& context, std::string_view method) {
  const auto [first, last] = context.client_metadata().equal_range(trace_key);
  gpuactors::TraceContext caller;
  // Of two, nobody knows which one is meant.
  if (first != last && std::next(first) == last)
    caller = gpuactors::parse_traceparent({first->second.data(), first->second.size()}).value_or(caller);
  gpuactors::OpenSpan span{method, gpuactors::SpanKind::server, caller};
  if (!span.recorded())
    return span;
  const auto slash = method.find('/');
  span.set("rpc.system", std::string{"grpc"});
  span.set("rpc.service", std::string{method.substr(0, slash)});
  span.set("rpc.method", std::string{method.substr(slash + 1)});
  return span;
}

} // namespace

std::string begin_request_id(const GrpcState& state, grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto given = metadata.find(request_id_key);
  if (given == metadata.end() && state.front->log == nullptr)
    return {};
  auto id = request_id_of(given == metadata.end() ? std::string_view{}
                                                  : std::string_view{given->second.data(), given->second.size()});
  context.AddInitialMetadata(request_id_key, id);
  return id;
}

std::unique_ptr<RequestLine> begin_line(const GrpcState& state, const grpc::CallbackServerContext& context,
                                        std::string id, std::string_view method) {
  auto line =
      std::make_unique<RequestLine>(state.front->log, grpc::StatusCode::CANCELLED, begin_call_span(context, method));
  if (!line->wanted())
    return line;
  line->about.front = "grpc";
  line->about.client = address_of(context.peer());
  line->about.id = std::move(id);
  line->about.what = method.substr(method.find('/') + 1);
  return line;
}

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

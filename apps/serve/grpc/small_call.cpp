#include <apps/serve/grpc/small_call.hpp>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <string>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

class SmallCall final : public MessageCall {
public:
  SmallCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context, bool later, AnswerSmall answer)
    : MessageCall(std::move(state), context), later_(later), answer_(std::move(answer)) {
    // nop
  }

private:
  void on_message() override {
    if (!later_)
      return finish();
    // It lives until it is finished.
    if (!state()->front->repository.run([this] { finish(); }))
      refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, std::string{works_too_much}});
  }

  void finish() {
    grpc::ByteBuffer response;
    if (const auto status = answer_(message(), response); status.ok())
      answer(response);
    else
      refuse(status);
  }

  bool later_;
  AnswerSmall answer_;
};

} // namespace

Result<void> parse_small(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ByteBuffer copy{bytes}; // of references
  grpc::ProtoBufferReader reader{&copy};
  google::protobuf::io::CodedInputStream in{&reader};
  if (!reader.status().ok() || !message.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
    return fail(Errc::invalid_argument, fmt::format("the bytes of the call are no {}", message.GetTypeName()));
  return {};
}

grpc::ByteBuffer bytes_of(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice{message.SerializeAsString()};
  return {&slice, 1};
}

CallReactor* answer_small(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context, Caller caller,
                          AnswerSmall answer) {
  auto* call = new SmallCall{state, context, false, std::move(answer)};
  call->receive(caller, state->front->options.limits.small_request_bytes);
  return call;
}

CallReactor* answer_small_later(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context,
                                AnswerSmall answer) {
  auto* call = new SmallCall{state, context, true, std::move(answer)};
  call->receive(Caller::known, state->front->options.limits.small_request_bytes);
  return call;
}

} // namespace serve

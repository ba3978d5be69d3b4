#include <apps/serve/grpc/message_call.hpp>

#include <fmt/format.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

namespace serve {

namespace {

using namespace std::chrono_literals;

// The message of a stranger is a few bytes, which come with the call. How much comes in this time nobody can tell.
constexpr gpuactors::Duration stranger_time = 500ms;

// gRPC's timers may be so much early.
constexpr auto timer_step = 10ms;

/// Why no message has come.
grpc::Status missing_status(const grpc::CallbackServerContext& context) {
  // Their clients have gone, but they are counted.
  if (context.deadline() <= std::chrono::system_clock::now() + timer_step)
    return {grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline of the call has passed before its message came"};
  if (context.IsCancelled())
    return {grpc::StatusCode::CANCELLED, "the client has given up the call"};
  return {grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"};
}

class RefusedCall final : public OpenCall {
public:
  RefusedCall(std::shared_ptr<GrpcState> state, const grpc::Status& status) : OpenCall(std::move(state)) {
    Finish(status);
  }

  void OnDone() override {
    delete this;
  }
};

} // namespace

/// What outlives the call when it ends before its message is given up.
struct MessageCall::Reading {
  std::mutex mutex;
  /// Null as soon as the message is there, or given up.
  MessageCall* call = nullptr;

  MessageCall* take() {
    const std::lock_guard lock{mutex};
    return std::exchange(call, nullptr);
  }
};

Caller caller_of(const GrpcState& state, const grpc::CallbackServerContext& context) {
  return is_allowed(state, context) ? Caller::known : Caller::stranger;
}

CallReactor* refused_call(const std::shared_ptr<GrpcState>& state, const grpc::Status& status) {
  state->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  return new RefusedCall{state, counted(*state, status)};
}

MessageCall::MessageCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context)
  : OpenCall(std::move(state)), context_(context), reading_(std::make_shared<Reading>()) {
  MessageCall::state()->front->grpc_requests.fetch_add(1, std::memory_order_relaxed);
  reading_->call = this;
}

MessageCall::~MessageCall() = default;

void MessageCall::receive(Caller caller, std::size_t most) {
  most_ = most;
  const auto stranger = caller == Caller::stranger;
  const auto time = stranger ? stranger_time : state()->front->options.limits.message;
  read_ = state()->reads.begin(time, stranger, [reading = reading_] {
    if (auto* call = reading->take())
      call->refuse({grpc::StatusCode::DEADLINE_EXCEEDED, "the message of the call took too long to arrive"});
  });
  StartRead(&message_);
}

void MessageCall::OnReadDone(bool ok) {
  state()->reads.end(read_);
  if (reading_->take() == nullptr)
    return;
  if (!ok)
    return refuse(missing_status(context_));
  if (message_.Length() > most_)
    return refuse({grpc::StatusCode::RESOURCE_EXHAUSTED,
                   fmt::format("the message of this call has {} bytes: it may have {}", message_.Length(), most_)});
  on_message();
}

void MessageCall::refuse(const grpc::Status& status) {
  on_end(status, 0);
  state()->writes.begin(context_, 0);
  Finish(counted(*state(), status));
}

void MessageCall::answer(const grpc::ByteBuffer& response, HeldShare share) {
  response_ = response; // of references
  share_ = std::move(share);
  on_end(grpc::Status::OK, response_.Length());
  state()->writes.begin(context_, response_.Length());
  StartWriteAndFinish(&response_, {}, counted(*state(), grpc::Status::OK));
}

void MessageCall::OnDone() {
  state()->writes.forget(context_);
  delete this;
}

} // namespace serve

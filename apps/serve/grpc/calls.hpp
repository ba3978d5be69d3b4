// The two calls that ask models: one request and one answer, or a stream of both. And what all calls share.
#pragma once

#include <apps/serve/grpc/slow_reads.hpp>
#include <apps/serve/grpc/slow_writes.hpp>
#include <apps/serve/protocol/front_state.hpp>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace serve {

struct StreamLink;

/// Every call is one of messages as bytes, which begins before any of them is read: so it can be refused by then.
using CallReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

/// Messages of strangers that may be on their way in at once.
inline constexpr std::size_t most_stranger_reads = 16;

/// The streams that are open.
struct OpenStreams {
  std::mutex mutex;
  std::set<std::shared_ptr<StreamLink>> links;
};

/// What the calls of a server share.
struct GrpcState {
  std::shared_ptr<FrontState> front;
  SlowReads reads;
  SlowWrites writes;
  OpenStreams streams;
  /// Calls of any kind, and those of them that ask models.
  std::atomic<std::size_t> open_calls{0};
  std::atomic<std::size_t> open_inferences{0};

  explicit GrpcState(std::shared_ptr<FrontState> state)
    : front(std::move(state)), reads(most_stranger_reads), writes(front->options.limits.transfer) {
    // nop
  }
};

/// Counts as long as it lives.
class Counting {
public:
  explicit Counting(std::atomic<std::size_t>& count) : count_(count) {
    ++count_;
  }

  ~Counting() {
    --count_;
  }

  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

private:
  std::atomic<std::size_t>& count_;
};

/// A call, which counts as open until gRPC says that it is done and it ends.
class OpenCall : public CallReactor {
protected:
  explicit OpenCall(std::shared_ptr<GrpcState> state) : state_(std::move(state)) {
    // nop
  }

  [[nodiscard]] const std::shared_ptr<GrpcState>& state() const noexcept {
    return state_;
  }

private:
  std::shared_ptr<GrpcState> state_;
  Counting open_{state_->open_calls};
};

/// The id of a call that asks a model, which its client is told, and for whom it is.
[[nodiscard]] std::string begin_request_id(const GrpcState& state, grpc::CallbackServerContext& context);

/// The methods that ask models, as traces call them.
inline constexpr std::string_view model_infer = "inference.GRPCInferenceService/ModelInfer";
inline constexpr std::string_view model_stream_infer = "inference.GRPCInferenceService/ModelStreamInfer";

/// The line of a request in the log, and its span.
[[nodiscard]] std::unique_ptr<RequestLine>
begin_line(const GrpcState& state, const grpc::CallbackServerContext& context, std::string id, std::string_view method);

/// The status, once it has been counted as an answer.
[[nodiscard]] grpc::Status counted(const GrpcState& state, grpc::Status status);

/// Whether the client brought a token, if one is needed.
[[nodiscard]] bool is_allowed(const GrpcState& state, const grpc::CallbackServerContext& context);

[[nodiscard]] Rights rights_of(const GrpcState& state, const grpc::CallbackServerContext& context);

/// The status for one who did not.
[[nodiscard]] grpc::Status token_status();

/// Asks a model. The call ends with the answer, or at once when the client gives it up.
[[nodiscard]] CallReactor* infer_over_grpc(const std::shared_ptr<GrpcState>& state,
                                           grpc::CallbackServerContext& context);

/// Asks models for each request of a stream, several at a time, and answers in the order of the requests.
[[nodiscard]] CallReactor* infer_stream(const std::shared_ptr<GrpcState>& state, grpc::CallbackServerContext& context);

/// Once the server is stopping: ends the streams that have nothing to answer. The others end with their last answer.
void end_streams(GrpcState& state);

} // namespace serve

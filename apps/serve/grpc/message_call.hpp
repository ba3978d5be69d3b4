// Calls that begin with one message: it is read when the client may send it, and then only so large and for so long.
#pragma once

#include <apps/serve/grpc/calls.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace serve {

/// Who asks without a token where one is needed. Some calls answer them all the same.
enum class Caller : std::uint8_t { stranger, known };

[[nodiscard]] Caller caller_of(const GrpcState& state, const grpc::CallbackServerContext& context);

/// Ends at once with a status, before anything of its messages is read. Lives until gRPC says that it is done.
[[nodiscard]] CallReactor* refused_call(const std::shared_ptr<GrpcState>& state, const grpc::Status& status);

/// Lives until gRPC says that it is done.
class MessageCall : public OpenCall {
public:
  MessageCall(std::shared_ptr<GrpcState> state, grpc::CallbackServerContext& context);
  ~MessageCall() override;

  /// Reads the message. Without one, or where it has more than `most` bytes, the call ends with a status that says so.
  void receive(Caller caller, std::size_t most);

protected:
  /// It has arrived. From then on, `OnCancel` may be called at any time, or has been.
  virtual void on_message() = 0;

  [[nodiscard]] grpc::CallbackServerContext& context() const noexcept {
    return context_;
  }

  [[nodiscard]] const grpc::ByteBuffer& message() const noexcept {
    return message_;
  }

  void clear_message() {
    message_.Clear();
  }

  /// The call ends with this, and so many bytes of an answer.
  virtual void on_end(const grpc::Status& /*status*/, std::size_t /*bytes*/) {
    // nop
  }

  /// Ends the call. One of these two, once.
  void refuse(const grpc::Status& status);
  /// @param share What is counted for the answer until it is written.
  void answer(const grpc::ByteBuffer& response, HeldShare share = {});

  void OnReadDone(bool ok) override;
  void OnDone() override;

private:
  struct Reading;

  grpc::CallbackServerContext& context_;
  std::shared_ptr<Reading> reading_;
  SlowReads::Key read_ = 0;
  std::size_t most_ = 0;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer response_;
  HeldShare share_;
};

} // namespace serve

#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/sizes.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

Result<InferRequest> read_request(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer,
                                  const std::shared_ptr<HeldBytes>& held) {
  GPUACTORS_LET(message, parse_request(buffer, held));
  GPUACTORS_LET(request, request_of(message));
  const auto deadline = context.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<gpuactors::Duration>(deadline - std::chrono::system_clock::now());
    if (left <= gpuactors::Duration::zero())
      return fail(Errc::deadline_exceeded, "the deadline of the call has passed");
    request.timeout = std::min(request.timeout.value_or(left), left);
  }
  return std::move(request);
}

Result<HeldShare> hold(const InferReply& reply, const std::shared_ptr<HeldBytes>& held) {
  HeldShare share{held};
  if (!share.grow_to(bytes_of(reply)))
    return fail(Errc::queue_full, std::string{held_too_much});
  return share;
}

Result<HeldShare> hold_item(const InferReply& reply, const std::shared_ptr<HeldBytes>& held) {
  if (bytes_of(reply) < small_reply)
    return HeldShare{};
  return hold(reply, held);
}

} // namespace serve

#include <apps/serve/grpc/request.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/sizes.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <chrono>
#include <string>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

ReadRequest read_request(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer,
                         const gpuactors::TraceContext& trace, const std::shared_ptr<HeldBytes>& held) {
  const auto arrived = gpuactors::Clock::now();
  const auto message = parse_request(buffer, held);
  if (!message)
    return {{}, fail(message.error())};
  ReadRequest read{check_id((*message)->id()) ? (*message)->id() : std::string{}, request_of(*message)};
  if (!read.request)
    return read;
  read.request->arrived = arrived;
  read.request->trace = trace;
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max())
    return read;
  const auto left = std::chrono::duration_cast<gpuactors::Duration>(deadline - std::chrono::system_clock::now());
  if (left <= gpuactors::Duration::zero())
    read.request = fail(Errc::deadline_exceeded, "the deadline of the call has passed");
  else
    read.request->call_deadline = gpuactors::deadline_after(gpuactors::Clock::now(), left);
  return read;
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

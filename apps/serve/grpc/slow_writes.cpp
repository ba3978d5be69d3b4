#include <apps/serve/grpc/slow_writes.hpp>

#include <grpcpp/server_context.h>

#include <cstdint>

namespace serve {

namespace {

constexpr std::size_t slow_unit = 1U << 20;

Deadlines::Key key_of(const grpc::ServerContextBase& call) {
  return reinterpret_cast<std::uintptr_t>(&call);
}

} // namespace

void SlowWrites::begin(grpc::ServerContextBase& call, std::size_t bytes) {
  limit(call, unit_ * static_cast<std::int64_t>(1 + bytes / slow_unit));
}

void SlowWrites::limit(grpc::ServerContextBase& call, gpuactors::Duration time) {
  deadlines_.begin(key_of(call), time, [&call] { call.TryCancel(); });
}

void SlowWrites::end(grpc::ServerContextBase& call) {
  deadlines_.end(key_of(call));
}

void SlowWrites::forget(grpc::ServerContextBase& call) {
  deadlines_.end_and_wait(key_of(call));
}

} // namespace serve

#include <apps/serve/grpc/slow_writes.hpp>

#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace serve {

using gpuactors::Clock;

namespace {

constexpr std::size_t slow_unit = 1U << 20;

} // namespace

SlowWrites::SlowWrites(gpuactors::Duration unit) : unit_(unit), thread_([this] { watch(); }) {
  // nop
}

SlowWrites::~SlowWrites() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SlowWrites::begin(grpc::ServerContextBase& call, std::size_t bytes) {
  const auto time = unit_ * static_cast<std::int64_t>(1 + bytes / slow_unit);
  const std::lock_guard lock{mutex_};
  deadlines_[&call] = gpuactors::deadline_after(Clock::now(), time);
}

void SlowWrites::end(grpc::ServerContextBase& call) {
  const std::lock_guard lock{mutex_};
  deadlines_.erase(&call);
}

void SlowWrites::watch() {
  using namespace std::chrono_literals;
  const auto period = std::clamp<gpuactors::Duration>(unit_ / 8, 5ms, 500ms);
  std::unique_lock lock{mutex_};
  while (!ending_) {
    changed_.wait_for(lock, period, [this] { return ending_; });
    cancel_late();
  }
}

void SlowWrites::cancel_late() {
  const auto now = Clock::now();
  std::vector<grpc::ServerContextBase*> late;
  for (const auto& [call, deadline] : deadlines_)
    if (deadline <= now)
      late.push_back(call);
  for (auto* call : late)
    if (deadlines_.erase(call) > 0)
      call->TryCancel();
}

} // namespace serve

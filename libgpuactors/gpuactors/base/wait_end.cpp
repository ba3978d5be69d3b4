#include <gpuactors/base/wait_end.hpp>

namespace gpuactors::detail {

namespace {

// Not in a header: each library that is loaded would have one of its own.
thread_local std::shared_ptr<const std::atomic<bool>> end_of_waits;

} // namespace

void set_wait_end(std::shared_ptr<const std::atomic<bool>> flag) noexcept {
  end_of_waits = std::move(flag);
}

const std::atomic<bool>* wait_end() noexcept {
  return end_of_waits.get();
}

Failure wait_ended() {
  return fail(Errc::lease_revoked, "the wait was ended: the task or actor that waits has to end");
}

} // namespace gpuactors::detail

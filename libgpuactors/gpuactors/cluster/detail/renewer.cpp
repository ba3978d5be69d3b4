#include <gpuactors/cluster/detail/renewer.hpp>

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace gpuactors::detail {

Renewer::Renewer(std::function<void(const std::atomic<bool>&)> renew) : renew_(std::move(renew)) {
  // nop
}

Renewer::~Renewer() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Result<void> Renewer::ask() {
  const std::lock_guard lock{mutex_};
  asked_ = true;
  try {
    if (!thread_.joinable())
      thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, fmt::format("there is no thread for it: {}", error.what()));
  }
  wake_.notify_all();
  return {};
}

void Renewer::run() {
  for (;;) {
    {
      std::unique_lock lock{mutex_};
      wake_.wait(lock, [this] { return asked_ || ending_; });
      if (ending_)
        return;
      asked_ = false;
    }
    renew_(ending_);
  }
}

} // namespace gpuactors::detail

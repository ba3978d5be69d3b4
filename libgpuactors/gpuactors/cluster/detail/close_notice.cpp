#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/cluster/detail/close_notice.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

namespace gpuactors::detail {

std::string close_notice(const std::vector<std::string>& there, Duration waited) {
  constexpr std::size_t most = 8;
  std::string what;
  for (std::size_t i = 0; i < std::min(most, there.size()); ++i)
    what += (i == 0 ? "" : ", ") + there[i];
  if (there.size() > most)
    what += fmt::format(" and {} more", there.size() - most);
  if (there.empty())
    what = "CAF actors or threads, such as actors of the program's own (Cluster::system)";
  return fmt::format("the cluster has been closing for {:.0f} s and waits for {}", to_seconds(waited), what);
}

CloseNotice::CloseNotice(std::shared_ptr<const HolderTable> holders, Duration first, Notice notice)
  : holders_(std::move(holders)), notice_(std::move(notice)) {
  if (first <= Duration::zero() || !notice_)
    return;
  try {
    thread_ = std::thread{[this, first, begun = Clock::now()] { run(first, begun); }};
  } catch (const std::system_error&) { // closing needs none
  }
}

CloseNotice::~CloseNotice() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void CloseNotice::run(Duration wait, TimePoint begun) {
  std::unique_lock lock{mutex_};
  while (!ended_.wait_for(lock, wait, [this] { return over_; })) {
    lock.unlock();
    const auto now = Clock::now();
    try {
      notice_(close_notice(holders_->still_there(now), now - begun));
    } catch (...) { // the program's function, or no memory: closing goes on
    }
    wait = std::min<Duration>(2 * wait, limits::notice_longest);
    lock.lock();
  }
}

} // namespace gpuactors::detail

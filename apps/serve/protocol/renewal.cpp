#include <apps/serve/protocol/renewal.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>
#include <utility>

namespace serve {

gpuactors::Result<std::unique_ptr<Renewal>> Renewal::start(std::vector<Watched> watched, gpuactors::Duration period) {
  std::unique_ptr<Renewal> result{new Renewal{std::move(watched), period}};
  try {
    result->thread_ = std::thread{[self = result.get()] { self->watch(); }};
  } catch (const std::system_error& error) {
    return gpuactors::fail(gpuactors::Errc::unavailable,
                           fmt::format("there is no thread that looks after files: {}", error.what()));
  }
  return result;
}

Renewal::Renewal(std::vector<Watched> watched, gpuactors::Duration period)
  : watched_(std::move(watched)), period_(period) {
  for (const auto& one : watched_)
    known_.push_back(stamps_of(one));
}

Renewal::~Renewal() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

Renewal::Stamp Renewal::stamp_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return {};
  return {info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

std::vector<Renewal::Stamp> Renewal::stamps_of(const Watched& watched) {
  std::vector<Stamp> stamps;
  for (const auto& file : watched.files)
    stamps.push_back(stamp_of(file));
  return stamps;
}

void Renewal::watch() {
  std::unique_lock lock{mutex_};
  while (!wake_.wait_for(lock, period_, [this] { return ends_; })) {
    lock.unlock();
    for (std::size_t i = 0; i < watched_.size(); ++i)
      // Before they are read: what changes meanwhile is read again.
      if (auto now = stamps_of(watched_[i]); now != known_[i]) {
        known_[i] = std::move(now);
        watched_[i].changed();
      }
    lock.lock();
  }
}

} // namespace serve

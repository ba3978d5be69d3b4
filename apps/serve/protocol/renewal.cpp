#include <apps/serve/protocol/renewal.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
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
  // nop
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

Renewal::Stamps Renewal::stamps_of(const std::vector<std::filesystem::path>& files) {
  Stamps stamps;
  for (const auto& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) {
      stamps.emplace_back();
      continue;
    }
    const std::chrono::nanoseconds changed =
        std::chrono::seconds{info.st_ctim.tv_sec} + std::chrono::nanoseconds{info.st_ctim.tv_nsec};
    stamps.push_back({info.st_dev, info.st_ino, info.st_size, changed.count()});
  }
  return stamps;
}

Renewal::Watched Renewal::watched(std::vector<std::filesystem::path> files, Stamps known,
                                  std::function<gpuactors::Result<std::string>()> renew,
                                  std::function<void(const std::string&)> notice) {
  return {std::move(files), std::move(known),
          [renew = std::move(renew), notice = std::move(notice), said = std::string{}]() mutable {
            const auto renewed = renew();
            auto text = renewed ? *renewed : renewed.error().message() + ": what was read before stays in use";
            if (text != said || renewed)
              notice(text);
            said = std::move(text);
            return renewed.has_value();
          }};
}

void Renewal::watch() {
  std::unique_lock lock{mutex_};
  while (!wake_.wait_for(lock, period_, [this] { return ends_; })) {
    lock.unlock();
    for (auto& one : watched_)
      // Before they are read: what changes meanwhile is read again.
      if (auto now = stamps_of(one.files); now != one.known && one.changed())
        one.known = std::move(now);
    lock.lock();
  }
}

} // namespace serve

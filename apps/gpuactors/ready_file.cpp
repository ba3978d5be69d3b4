#include "ready_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <system_error>
#include <utility>

namespace gpuactors::cli {

Result<std::shared_ptr<ReadyFile>> ReadyFile::make(std::string option, std::string path) {
  // One that was left by a process that was killed is empty. Nothing else is taken away.
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && (!S_ISREG(there.st_mode) || there.st_size > 0))
    return fail(
        Errc::invalid_argument,
        fmt::format("{} {} is there already, and is no empty file: name one that is nobody else's", option, path));
  auto made = std::make_shared<ReadyFile>(std::move(option), std::move(path));
  for (const bool ready : {true, false})
    if (const auto why = made->put(ready); !why.empty())
      return fail(Errc::invalid_argument, why);
  try {
    made->thread_ = std::thread{[file = made.get()] { file->run(); }};
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, fmt::format("no thread for {}: {}", made->option_, error.what()));
  }
  return made;
}

ReadyFile::ReadyFile(std::string option, std::string path) : option_(std::move(option)), path_(std::move(path)) {
  // nop
}

ReadyFile::~ReadyFile() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
    wanted_ = false;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void ReadyFile::set(bool ready) {
  {
    const std::lock_guard lock{mutex_};
    wanted_ = ready && !over_;
  }
  changed_.notify_all();
}

void ReadyFile::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return wanted_.has_value(); });
    const bool last = over_;
    const bool ready = *std::exchange(wanted_, std::nullopt);
    lock.unlock();
    if (const auto why = put(ready); !why.empty())
      std::cerr << fmt::format("warning: {}\n", why);
    if (last)
      return;
    lock.lock();
  }
}

std::string ReadyFile::put(bool ready) const {
  bool done = true;
  if (ready) {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    done = file >= 0;
    if (done)
      ::close(file);
  } else {
    done = ::unlink(path_.c_str()) == 0 || errno == ENOENT;
  }
  if (done)
    return {};
  return fmt::format("{} {} cannot be {}: {}", option_, path_, ready ? "made" : "taken away",
                     std::generic_category().message(errno));
}

} // namespace gpuactors::cli

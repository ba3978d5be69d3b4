#include "ready_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <system_error>
#include <utility>

namespace gpuactors::cli {

Result<std::shared_ptr<ReadyFile>> ReadyFile::make(std::string option, std::string path) {
  auto made = std::make_shared<ReadyFile>(std::move(option), std::move(path));
  for (const bool there : {true, false})
    if (const auto why = made->put(there); !why.empty())
      return fail(Errc::invalid_argument, why);
  return made;
}

ReadyFile::ReadyFile(std::string option, std::string path) : option_(std::move(option)), path_(std::move(path)) {
  // nop
}

void ReadyFile::set(bool ready) {
  const std::lock_guard lock{mutex_};
  if (const auto why = put(ready); !why.empty())
    std::cerr << fmt::format("warning: {}\n", why);
}

std::string ReadyFile::put(bool ready) const {
  bool done = true;
  if (ready) {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
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

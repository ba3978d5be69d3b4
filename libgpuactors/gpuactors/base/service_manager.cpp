#include <gpuactors/base/service_manager.hpp>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace gpuactors {

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// A whole number above 0; 0 for anything else.
std::int64_t positive_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value > 0 ? value : 0;
}

/// On one line, as the protocol wants it.
std::string on_one_line(std::string_view text) {
  std::string line{text};
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

} // namespace

ServiceManager ServiceManager::from_environment() {
  const auto socket = variable("NOTIFY_SOCKET");
  std::optional<Duration> watchdog;
  const auto micros = positive_number(variable("WATCHDOG_USEC"));
  const auto process = variable("WATCHDOG_PID");
  if (micros > 0 && (process.empty() || positive_number(process) == ::getpid()))
    watchdog = std::chrono::microseconds{micros};
  return ServiceManager{std::string{socket}, watchdog};
}

void ServiceManager::ready(std::string_view what) const {
  send("READY=1\nSTATUS=" + on_one_line(what), If::it_waits);
}

void ServiceManager::status(std::string_view what) const {
  send("STATUS=" + on_one_line(what), If::it_waits);
}

void ServiceManager::stopping() const {
  send("STOPPING=1", If::it_waits);
}

void ServiceManager::alive() const {
  // The next one comes soon.
  send("WATCHDOG=1", If::there_is_room);
}

std::optional<Duration> ServiceManager::beat() const {
  constexpr int beats = 3;
  if (socket_.empty() || !watchdog_)
    return std::nullopt;
  return *watchdog_ / beats;
}

void ServiceManager::send(const std::string& text, If when) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path)
    return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@')
    address.sun_path[0] = '\0';
  const int channel = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (channel < 0)
    return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // Few messages wait for one that does not read. There is no answer in any case.
  const timeval patience{1, 0};
  ::setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const int flags = MSG_NOSIGNAL | (when == If::there_is_room ? MSG_DONTWAIT : 0);
  static_cast<void>(
      ::sendto(channel, text.data(), text.size(), flags, reinterpret_cast<const sockaddr*>(&address), size));
  ::close(channel);
}

} // namespace gpuactors

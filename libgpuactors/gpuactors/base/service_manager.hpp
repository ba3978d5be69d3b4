// Reports to the service manager that started the process: that it is ready, that it ends, that it is not stuck.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpuactors {

/// systemd's protocol (`Type=notify`, sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET names. Without that
/// variable, nothing is sent. Any thread. If the manager does not read, calls wait for a second at most, and `alive`
/// does not wait.
class ServiceManager {
public:
  /// Returns the service manager of this process that the environment names: NOTIFY_SOCKET, WATCHDOG_USEC and
  /// WATCHDOG_PID.
  static ServiceManager from_environment();

  /// @param socket a path, or "@" and a name in the abstract name space; empty: there is none.
  /// @param watchdog how long the process may go without `alive` before it is ended; nothing: without limit.
  explicit ServiceManager(std::string socket = {}, std::optional<Duration> watchdog = {})
    : socket_(std::move(socket)), watchdog_(watchdog) {
    // nop
  }

  /// Reports that the process serves. @param what a line for people, which systemctl status shows.
  void ready(std::string_view what) const;
  /// Reports what the process does now, for people.
  void status(std::string_view what) const;
  void stopping() const;
  /// Reports that the process is not stuck.
  void alive() const;

  /// Returns the longest pause between two calls of `alive`: a third of the time after which the process is ended.
  /// Nothing if no manager watches the process.
  [[nodiscard]] std::optional<Duration> beat() const;

private:
  /// Whether a message for which there is no room now waits, or is dropped.
  enum class If : std::uint8_t { it_waits, there_is_room };

  void send(const std::string& text, If when) const;

  std::string socket_;
  std::optional<Duration> watchdog_;
};

} // namespace gpuactors

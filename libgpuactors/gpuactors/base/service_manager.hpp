// What a process tells the service manager that has started it: that it is ready, that it ends, that it is not stuck.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpuactors {

/// systemd's protocol (`Type=notify`, sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET names. Without one,
/// nothing is sent. Any thread. For a manager that does not read, calls wait for a second at most, and `alive` does
/// not.
class ServiceManager {
public:
  /// Of this process, as its environment says: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static ServiceManager from_environment();

  /// @param socket a path, or "@" and a name in the abstract name space; empty: there is none.
  /// @param watchdog after how long without `alive` the process is ended.
  explicit ServiceManager(std::string socket = {}, std::optional<Duration> watchdog = {})
    : socket_(std::move(socket)), watchdog_(watchdog) {
    // nop
  }

  /// The process serves. @param what a line for people, which systemctl status shows.
  void ready(std::string_view what) const;
  /// What it does now, for people.
  void status(std::string_view what) const;
  void stopping() const;
  /// It is not stuck.
  void alive() const;

  /// How often to call `alive` at least: a third of the time after which the process is ended. Nothing: nobody asks.
  [[nodiscard]] std::optional<Duration> beat() const;

private:
  /// When to send, if there is no room for a message now.
  enum class If : std::uint8_t { it_waits, there_is_room };

  void send(const std::string& text, If when) const;

  std::string socket_;
  std::optional<Duration> watchdog_;
};

} // namespace gpuactors

// Sockets that never block by themselves: whoever waits does so until a time, or until he is told to stop.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/detail/descriptor.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/result.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace gpuactors::transport {

using detail::Descriptor;
using detail::errno_text;

/// A flag that threads can wait for beside a socket. Any thread.
class Signal {
public:
  /// @returns `unavailable` when there is no descriptor left.
  [[nodiscard]] static Result<Signal> make();

  void set() noexcept;
  /// Takes it back.
  void clear() noexcept;

  [[nodiscard]] bool is_set() const noexcept {
    return *set_;
  }

  [[nodiscard]] int descriptor() const noexcept {
    return event_.get();
  }

private:
  explicit Signal(Descriptor event) : event_(std::move(event)), set_(std::make_unique<std::atomic<bool>>(false)) {
    // nop
  }

  Descriptor event_;
  std::unique_ptr<std::atomic<bool>> set_;
};

/// For poll: milliseconds until `until`, rounded up; -1 for never.
[[nodiscard]] int poll_timeout(TimePoint until);

/// Waits until `socket` is ready for `events` of poll.
/// @returns `deadline_exceeded` at `until`, `cancelled` when `stop` is set.
[[nodiscard]] Result<void> wait_for(int socket, short events, const Signal& stop, TimePoint until);

/// Who can reach a Unix socket of this process: boot of the machine, network namespace and user. One word.
[[nodiscard]] const std::string& machine_identity();

/// Whether the process at the other end of a Unix socket belongs to the same user.
[[nodiscard]] bool is_same_user(int socket);

/// A listening Unix socket in the abstract namespace: it has no file that could be left behind.
[[nodiscard]] Result<Descriptor> listen_local(const std::string& name);

/// A listening TCP socket, and the port it got.
struct TcpListener {
  Descriptor socket;
  std::uint16_t port = 0;
};
[[nodiscard]] Result<TcpListener> listen_tcp(const Endpoint& at);

/// Takes the next connection; an empty one when there is none.
/// @returns `unavailable` when there is no descriptor or memory left.
[[nodiscard]] Result<Descriptor> accept_next(int listener);

/// Connects to a Unix socket.
/// @returns `worker_died` when nobody listens, `unavailable` for anything else, and what `wait_for` returns.
[[nodiscard]] Result<Descriptor> connect_local(const std::string& name, const Signal& stop, TimePoint until);

/// Connects to a TCP port, whichever of the host's addresses answers.
/// @returns `worker_died` when nobody listens, `unavailable` for anything else, and what `wait_for` returns.
[[nodiscard]] Result<Descriptor> connect_tcp(const Endpoint& to, const Signal& stop, TimePoint until);

} // namespace gpuactors::transport

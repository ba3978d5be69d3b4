// Non-blocking sockets: every wait ends at a deadline or when a stop signal is set. Only looking up a host that is a
// name, and no address, takes as long as the system's resolver does.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/listening.hpp>
#include <gpuactors/base/result.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace gpuactors::transport {

using detail::Descriptor;
using detail::errno_text;

/// A flag that threads can wait for together with a socket. Any thread.
class Signal {
public:
  /// @returns `unavailable` when there is no descriptor left.
  [[nodiscard]] static Result<Signal> make();

  void set() noexcept;
  /// Resets the flag.
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

/// Returns the timeout for poll: milliseconds until `until`, rounded up; -1 for `never`.
[[nodiscard]] int poll_timeout(TimePoint until);

/// Waits until `socket` is ready for `events` (as for poll).
/// @returns `deadline_exceeded` at `until`, `cancelled` if `stop` is set.
[[nodiscard]] Result<void> wait_for(int socket, short events, const Signal& stop, TimePoint until);

/// Returns one word that identifies who can reach a Unix socket of this process: boot of the machine, network namespace
/// and user.
[[nodiscard]] const std::string& machine_identity();

/// Returns whether the process at the other end of a Unix socket belongs to the same user.
[[nodiscard]] bool is_same_user(int socket);

/// Makes a listening Unix socket in the abstract namespace, where no file can be left behind.
[[nodiscard]] Result<Descriptor> listen_local(const std::string& name);

/// A listening TCP socket and its actual port.
struct TcpListener {
  Descriptor socket;
  std::uint16_t port = 0;
};
/// Listens at the first of the host's addresses. May block: the host may be a name, which is looked up.
[[nodiscard]] Result<TcpListener> listen_tcp(const Endpoint& at);

/// Checks that this machine can listen at the address of `where`, so that not each port of a range is tried in vain.
/// Blocks as `listen_tcp`.
/// @returns the errors of that.
[[nodiscard]] Result<void> check_listening(const Listening& where);

/// Accepts the next connection; returns an empty descriptor if there is none.
/// @returns `unavailable` if no descriptor or memory is left.
[[nodiscard]] Result<Descriptor> accept_next(int listener);

/// Connects to a Unix socket.
/// @returns `worker_died` if nobody listens, `unavailable` for other failures, or the errors of `wait_for`.
[[nodiscard]] Result<Descriptor> connect_local(const std::string& name, const Signal& stop, TimePoint until);

/// Connects to a TCP port at the first of the host's addresses that answers. A host that is a name is looked up first:
/// neither `stop` nor `until` ends that.
/// @returns `worker_died` if nobody listens, `unavailable` for other failures, or the errors of `wait_for`.
[[nodiscard]] Result<Descriptor> connect_tcp(const Endpoint& to, const Signal& stop, TimePoint until);

} // namespace gpuactors::transport

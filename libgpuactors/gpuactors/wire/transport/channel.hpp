// Channel: one connection for bulk data, plain or TLS over TCP, or a Unix socket that can pass descriptors.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/wire/sockets.hpp>
#include <gpuactors/wire/transport/frames.hpp>
#include <gpuactors/wire/transport/tls.hpp>

namespace gpuactors::transport {

/// The descriptors of another process's memory that came with a frame.
struct Passed {
  Descriptor memory;
  Descriptor token;
};

/// A socket, with TLS once secured. One thread at a time; only `interrupt` may be called from other threads.
///
/// Waiting functions return `deadline_exceeded` at their time limit, `cancelled` if `stop` is set, `worker_died` if the
/// peer has closed or reset the connection, and `unavailable` for anything else.
class Channel {
public:
  /// `stop` must outlive the channel.
  Channel(Descriptor socket, const Signal& stop) : socket_(std::move(socket)), stop_(&stop) {
    // nop
  }

  /// Makes the TLS handshake. After a refusal, it gives the peer time to read why.
  [[nodiscard]] Result<void> secure(const TlsContext& context, TlsPart part, TimePoint until);

  /// Read or write as many bytes as possible at once, at least one; wait for that one until `until`.
  [[nodiscard]] Result<std::size_t> read_some(std::byte* data, std::size_t size, TimePoint until);
  [[nodiscard]] Result<std::size_t> write_some(const std::byte* data, std::size_t size, TimePoint until);

  /// Read or write `size` bytes; each next part must move within `progress`, and all of them before `until`. `done`
  /// counts the bytes read, also after a failure.
  [[nodiscard]] Result<void> read_all(std::byte* data, std::size_t size, Duration progress, TimePoint until,
                                      std::size_t& done);
  [[nodiscard]] Result<void> write_all(const std::byte* data, std::size_t size, Duration progress, TimePoint until);

  [[nodiscard]] Result<void> read_frame(Frame& frame, TimePoint until);
  [[nodiscard]] Result<void> write_frame(const Frame& frame, TimePoint until);

  /// Read or write a frame over a Unix socket, together with the descriptors of a region.
  [[nodiscard]] Result<void> read_frame(Frame& frame, Passed& passed, TimePoint until);
  [[nodiscard]] Result<void> write_frame(const Frame& frame, const RegionDescriptors& descriptors, TimePoint until);

  /// Returns whether an idle connection was closed by the peer, or has unexpected bytes.
  [[nodiscard]] bool is_stale() const;

  /// Waits until the peer has sent bytes, without consuming them.
  [[nodiscard]] Result<void> wait_for_bytes(TimePoint until);

  /// Returns the peer after `secure` with this context.
  [[nodiscard]] TlsPeer peer(const TlsContext& context) const {
    return {context, *session_};
  }

  [[nodiscard]] int socket() const noexcept {
    return socket_.get();
  }

  /// Gives up the socket and the session to the caller.
  [[nodiscard]] std::pair<Descriptor, TlsSession> release() && {
    return {std::move(socket_), std::move(session_)};
  }

  /// Shuts the connection down, even while another thread reads or writes. Any thread, while the channel lives.
  void interrupt() const noexcept;

private:
  using Move = int (*)(SSL*, std::byte*, std::size_t, std::size_t*);

  Result<TimePoint> next_stop(Duration progress, TimePoint until) const;
  Result<void> wait(short events, TimePoint until) const;
  /// After an OpenSSL call that returned `result`, waits for the socket if that is all it needs; else returns the
  /// error.
  Result<void> go_on(int result, TimePoint until) const;
  Result<std::size_t> move_secure(Move move, std::byte* data, std::size_t size, TimePoint until);
  [[nodiscard]] Failure refusal(const Error& error) const;
  void linger(TimePoint until) const;

  Descriptor socket_;
  TlsSession session_;
  const Signal* stop_;
};

} // namespace gpuactors::transport

// One connection for bulk data: plain or TLS over TCP, or a Unix socket that can pass descriptors.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/region.hpp>
#include <gpuactors/wire/transport/frames.hpp>
#include <gpuactors/wire/transport/sockets.hpp>
#include <gpuactors/wire/transport/tls.hpp>

namespace gpuactors::transport {

/// Memory of another process, as it came with a frame.
struct Passed {
  Descriptor memory;
  Descriptor token;
};

/// A socket, and TLS over it if it was secured. For one thread at a time; only `interrupt` may come from others.
///
/// All that waits returns `deadline_exceeded` at its time, `cancelled` when `stop` is set, `worker_died` when the
/// other side has closed or reset the connection, `unavailable` for anything else.
class Channel {
public:
  /// `stop` outlives the channel.
  Channel(Descriptor socket, const Signal& stop) : socket_(std::move(socket)), stop_(&stop) {
    // nop
  }

  /// Agrees on TLS with the other side. A side that refuses gives the other one time to hear why.
  [[nodiscard]] Result<void> secure(const TlsContext& context, bool accepts, TimePoint until);

  /// Reads or writes as much as can be had at once, at least 1 byte.
  [[nodiscard]] Result<std::size_t> read_some(std::byte* data, std::size_t size, TimePoint until);
  [[nodiscard]] Result<std::size_t> write_some(const std::byte* data, std::size_t size, TimePoint until);

  /// Reads or writes all of it, as long as each next part comes within `progress`, and all before `until`. `done`
  /// counts the bytes.
  [[nodiscard]] Result<void> read_all(std::byte* data, std::size_t size, Duration progress, TimePoint until,
                                      std::size_t& done);
  [[nodiscard]] Result<void> write_all(const std::byte* data, std::size_t size, Duration progress, TimePoint until);

  [[nodiscard]] Result<void> read_frame(Frame& frame, TimePoint until);
  [[nodiscard]] Result<void> write_frame(const Frame& frame, TimePoint until);

  /// The same over a Unix socket, with the descriptors of a region beside the frame.
  [[nodiscard]] Result<void> read_frame(Frame& frame, Passed& passed, TimePoint until);
  [[nodiscard]] Result<void> write_frame(const Frame& frame, const RegionDescriptors& descriptors, TimePoint until);

  /// Whether a connection on which nothing is expected was closed, or has bytes.
  [[nodiscard]] bool is_stale() const;

  /// Waits until the other side has sent something, which stays to be read.
  [[nodiscard]] Result<void> wait_for_bytes(TimePoint until);

  [[nodiscard]] int socket() const noexcept {
    return socket_.get();
  }

  /// Gives the socket and the session to somebody else.
  [[nodiscard]] std::pair<Descriptor, TlsSession> release() && {
    return {std::move(socket_), std::move(session_)};
  }

  /// Ends the connection, whoever reads or writes. Any thread, while the channel lives.
  void interrupt() const noexcept;

private:
  using Move = int (*)(SSL*, std::byte*, std::size_t, std::size_t*);

  Result<TimePoint> next_stop(Duration progress, TimePoint until) const;
  Result<void> wait(short events, TimePoint until) const;
  /// After a call of TLS that returned `result`: waits for what it needs.
  Result<void> go_on(int result, TimePoint until) const;
  Result<std::size_t> move_secure(Move move, std::byte* data, std::size_t size, TimePoint until);
  void linger(TimePoint until) const;

  Descriptor socket_;
  TlsSession session_;
  const Signal* stop_;
};

} // namespace gpuactors::transport

// LinkStream: the bytes of one connection, as CAF's event loop reads and writes them. Internal to the layer.
#pragma once

#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/transport/pipe.hpp>

#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/stream.hpp>
#include <sys/socket.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>

namespace gpuactors::detail {

/// Largest buffer that a connection keeps when its messages have gone.
inline constexpr std::size_t kept_link_buffer = 1U << 20;

/// Gives the memory of a buffer back that a large message has needed. Its content is lost then.
inline void release_large(caf_version::LinkBuffer& buffer) {
  if (buffer.capacity() > kept_link_buffer)
    caf_version::LinkBuffer{}.swap(buffer);
}

/// The read policy of CAF's stream: reads from the pipe, which never blocks.
class ReadPolicy {
public:
  explicit ReadPolicy(transport::Pipe& pipe) : pipe_(pipe) {
    // nop
  }

  caf::io::network::rw_state read_some(std::size_t& done, caf::io::network::native_socket, void* data,
                                       std::size_t size) {
    ++reads_;
    return pipe_.read(data, size, done) == transport::Pipe::Read::failed ? caf::io::network::rw_state::failure
                                                                         : caf::io::network::rw_state::success;
  }

  /// Required by CAF's template; never called.
  static caf::io::network::rw_state write_some(std::size_t& done, caf::io::network::native_socket, const void*,
                                               std::size_t) {
    done = 0;
    return caf::io::network::rw_state::failure;
  }

  /// Begins this connection's turn in the event loop.
  void begin_reading() noexcept {
    reads_ = 0;
  }

  /// Returns whether reading stopped at the limit of this turn although more bytes are at hand.
  [[nodiscard]] bool is_exhausted() const {
    return reads_ >= most_reads && pipe_.has_pending();
  }

  /// Returns whether to continue reading in this turn. A TLS session takes in more bytes while it is read from: without
  /// a limit, one fast peer would keep all other connections, and the heartbeats, waiting.
  [[nodiscard]] bool must_read_more(caf::io::network::native_socket, std::size_t) const {
    return reads_ < most_reads && pipe_.has_pending();
  }

private:
  static constexpr int most_reads = 256;

  transport::Pipe& pipe_;
  int reads_ = 0;
};

/// A CAF stream that reads from a pipe and writes through it.
class LinkStream final : public caf::io::network::stream {
public:
  /// @param read_again has `handle_event` called for reading again, after other connections had their turn.
  LinkStream(caf::io::network::default_multiplexer& multiplexer, caf::io::network::native_socket socket,
             transport::Pipe& pipe, ReadPolicy policy, std::function<void()> read_again)
    : stream(multiplexer, socket), pipe_(pipe), policy_(policy), read_again_(std::move(read_again)) {
    // nop
  }

  void handle_event(caf::io::network::operation what) override {
    if (what == caf::io::network::operation::write) {
      if (manager_ != nullptr)
        write_now(manager_);
      return;
    }
    policy_.begin_reading();
    handle_event_impl(what, policy_);
    if (what == caf::io::network::operation::read && policy_.is_exhausted())
      read_again_();
  }

  /// Sends CAF's buffer and the bytes that other threads left behind. What the socket does not take now follows when
  /// the event loop reports it writable.
  void write(const manager_ptr& manager) {
    // While write events are enabled, bytes are only queued: CAF's event loop would not notice that write events were
    // disabled and enabled again before it applied the change.
    if (manager_ == nullptr)
      return write_now(manager);
    const auto kept = manager_; // a failure may release the last other reference
    const bool works = pipe_.keep(buffered());
    clear_written();
    if (!works)
      break_off(kept);
  }

  /// Sends everything that is queued, then shuts down the sending side of the socket.
  void finish(const manager_ptr& manager) {
    finishing_ = true;
    write(manager);
  }

private:
  void write_now(const manager_ptr& manager) {
    const auto kept = manager; // a failure may release the last other reference
    const auto rest = pipe_.send_rest(buffered());
    clear_written();
    switch (rest) {
    case transport::Pipe::Rest::some:
      if (manager_ == nullptr)
        force_empty_write(kept);
      manager_ = kept;
      break;
    case transport::Pipe::Rest::none:
      stop_writing();
      if (std::exchange(finishing_, false))
        ::shutdown(fd(), SHUT_WR);
      break;
    case transport::Pipe::Rest::failed:
      break_off(kept);
      break;
    }
  }

  void break_off(const manager_ptr& kept) {
    stop_writing();
    // CAF's broker may be what writes, in the middle of a message or of its own end. It hears of the failure after
    // that: it would otherwise end twice.
    backend().post([this, kept] {
      if (!kept->detached())
        kept->io_failure(&backend(), caf::io::network::operation::write);
    });
  }

  /// Returns the contents of CAF's write buffer.
  std::string_view buffered() {
    return {reinterpret_cast<const char*>(wr_buf().data()), wr_buf().size()};
  }

  void clear_written() {
    wr_buf().clear();
    release_large(wr_buf());
  }

  void stop_writing() {
    if (manager_ == nullptr)
      return;
    manager_.reset();
    state_.writing = false;
    backend().del(caf::io::network::operation::write, fd(), this);
  }

  transport::Pipe& pipe_;
  ReadPolicy policy_;
  std::function<void()> read_again_;
  // The manager to notify when the socket is writable; null while write events are disabled.
  manager_ptr manager_;
  bool finishing_ = false;
};

} // namespace gpuactors::detail

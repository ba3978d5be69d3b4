// LinkPipe: the bytes of one connection. The event loop reads from it; any thread writes to it, and does so at once
// while the socket takes them: a message then needs no other thread to leave its process. Internal to the layer.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/wire/caf_version.hpp>
#include <gpuactors/wire/transport/tls.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace gpuactors::detail {

/// One socket, with its session if it is TLS. What is sent leaves in the order of the calls, messages whole.
///
/// Reading is the event loop's; all else is for any thread. One thread at a time writes to the socket. Whoever comes
/// meanwhile leaves its bytes behind and goes, and what the socket does not take the event loop sends when it does; so
/// nobody waits.
class LinkPipe {
public:
  using Buffer = caf_version::LinkBuffer;

  /// Has the event loop call `send_rest` soon. Called from any thread, under the pipe's lock.
  using CallLoop = std::function<void()>;

  /// @param socket not blocking; whoever owns it calls `close` before it closes the socket.
  LinkPipe(int socket, transport::TlsSession tls, CallLoop call_loop);

  LinkPipe(const LinkPipe&) = delete;
  LinkPipe& operator=(const LinkPipe&) = delete;
  ~LinkPipe() = default;

  // -- reading: the event loop ---------------------------------------------------------------------

  enum class Read { done, nothing, failed };

  /// Reads up to `size` bytes, `done` of them.
  Read read(void* data, std::size_t size, std::size_t& done);

  /// Whether there are bytes here that the socket will not announce any more.
  [[nodiscard]] bool has_pending();

  // -- writing -------------------------------------------------------------------------------------

  /// Sends one message, at once if that is sensible: a stream of them is left to the event loop, which sends many with
  /// one system call. `message` is empty or arbitrary afterwards.
  /// @returns false when the connection has failed or was closed: nothing was sent then that arrives.
  bool send(Buffer& message);

  /// Has `messages` sent after all that came before. From the event loop, while it waits for the socket.
  void keep(Buffer& messages);

  enum class Rest { none, some, failed };

  /// Sends `messages`, and what was left behind before them. From the event loop.
  /// @returns `some` when the socket is full: call again when it is not.
  Rest send_rest(Buffer& messages);

  /// Nothing is read, sent or called after it. Waits for a thread that is writing right now.
  void close();

private:
  enum class Outcome { all, full, failed };

  Outcome write(const char* data, std::size_t size, std::size_t& done);
  Outcome write_session(const char* data, std::size_t size, std::size_t& done);
  bool write_out(std::unique_lock<std::mutex>& lock, Buffer& bytes, std::size_t begin);
  void leave_behind(Buffer& bytes);
  ssize_t read_ahead(void* data, std::size_t size);

  static constexpr std::size_t ahead = 16U << 10;

  const int socket_;

  // A session is used by one thread at a time: read or written.
  std::mutex session_mutex_;
  transport::TlsSession tls_;

  // What a socket had beyond what was asked for, in plaintext. The event loop's.
  std::unique_ptr<std::array<char, ahead>> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
  bool drained_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  CallLoop call_loop_;
  // Messages that wait, without the bytes at the front that were sent.
  Buffer waiting_;
  std::size_t waiting_begin_ = 0;
  TimePoint last_write_{};
  bool writing_ = false;
  // The event loop was called, or waits for the socket: it sends what waits.
  bool loop_comes_ = false;
  bool failed_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::detail

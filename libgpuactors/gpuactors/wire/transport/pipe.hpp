// Pipe: the bytes of one connection. An event loop reads from it; any thread writes to it, and does so at once while
// the socket takes them: a message then needs no other thread to leave its process.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/transport/tls.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace gpuactors::transport {

/// One socket, with its session if it is TLS. What is sent leaves in the order of the calls, messages whole.
///
/// Reading is the event loop's; all else is for any thread. One thread at a time writes to the socket. Whoever comes
/// meanwhile leaves its bytes behind and goes, and what the socket does not take the event loop sends when it does; so
/// nobody waits.
class Pipe {
public:
  /// Has the event loop call `send_rest` soon. Called from any thread; not after `close`.
  using CallLoop = std::function<void()>;

  /// @param socket not blocking; whoever owns it calls `close` before it closes the socket.
  /// @param session null in plaintext.
  /// @param collect what follows a message within this time is left to the event loop.
  Pipe(int socket, TlsSession session, CallLoop call_loop, Duration collect = limits::link_collect);

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() = default;

  // -- reading: the event loop ---------------------------------------------------------------------

  enum class Read { done, nothing, failed };

  /// Reads up to `size` bytes, `done` of them. The end of the connection is a failure.
  Read read(void* data, std::size_t size, std::size_t& done);

  /// Whether there are bytes here that the socket will not announce any more.
  [[nodiscard]] bool has_pending();

  // -- writing -------------------------------------------------------------------------------------

  /// Sends one message, at once if that is sensible: a stream of them is left to the event loop, which sends many with
  /// one system call.
  /// @returns false when the connection has failed or was closed: the message does not arrive then.
  bool send(std::string_view message);

  enum class Rest { none, some, failed };

  /// Sends `messages`, after all that came before. From the event loop.
  /// @returns `some` when the socket is full: call again when it is not. `none` also when another thread is writing,
  /// which calls the event loop if anything is left.
  Rest send_rest(std::string_view messages);

  /// Has `messages` sent after all that came before. From the event loop, while it waits for the socket.
  void keep(std::string_view messages);

  /// From now on `send` refuses; what came before is still sent. Waits for a thread that is writing right now.
  void retire();

  /// Nothing is sent or called after it. Waits for a thread that is writing right now.
  void close();

private:
  using Lock = std::unique_lock<std::mutex>;
  using Buffer = std::vector<char>;

  std::size_t write(Lock& lock, std::string_view bytes);
  bool write_plain(std::string_view bytes, std::size_t& done);
  bool write_session(std::string_view bytes, std::size_t& done);
  void call_loop(Lock& lock);
  void leave_behind(std::string_view bytes);
  void put_back(std::string_view bytes);
  void put_back(Buffer bytes, std::size_t begin);
  void fail();
  void await_writer(Lock& lock);
  ssize_t read_ahead(void* data, std::size_t size);

  static constexpr std::size_t ahead = 16U << 10;

  const int socket_;
  const Duration collect_;

  // A session is used by one thread at a time: read or written.
  std::mutex session_mutex_;
  TlsSession session_;

  // What a socket had beyond what was asked for, in plaintext. The event loop's.
  std::unique_ptr<std::array<char, ahead>> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
  bool drained_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  CallLoop call_loop_;
  // Messages that wait; the bytes before `waiting_begin_` were sent.
  Buffer waiting_;
  std::size_t waiting_begin_ = 0;
  TimePoint last_write_{};
  // A thread writes, or calls the loop: others leave it to that one.
  bool busy_ = false;
  // The event loop was called, or waits for the socket: it sends what waits.
  bool loop_comes_ = false;
  bool failed_ = false;
  bool retired_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::transport

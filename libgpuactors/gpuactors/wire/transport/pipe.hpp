// Pipe: the byte stream of one connection. An event loop reads from it; any thread writes to it, directly to the socket
// as long as that accepts the bytes, so a message leaves its process without another thread.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/transport/budget.hpp>
#include <gpuactors/wire/transport/tls.hpp>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace gpuactors::transport {

/// One socket, with its TLS session if there is one. Messages leave whole and in the order of the calls.
///
/// Only the event loop reads; any thread may call the rest. One thread at a time writes to the socket. A thread that
/// comes meanwhile leaves its bytes behind and returns, and the event loop sends the bytes that the socket did not
/// accept once it is writable. So no thread waits.
class Pipe {
public:
  /// Makes the event loop call `send_rest` soon. Called from any thread; never after `close`.
  using CallLoop = std::function<void()>;

  /// @param socket a non-blocking socket; its owner calls `close` before closing it.
  /// @param session the TLS session; null in plaintext.
  /// @param collect messages that follow another within this time are left to the event loop.
  /// @param stall the connection fails when the socket has taken nothing for so long and more than
  ///        `limits::link_waiting_bytes` wait for it.
  /// @param budget that of whoever is at the other end, with others; null: none.
  Pipe(int socket, TlsSession session, CallLoop call_loop, Duration collect = limits::link_collect,
       Duration stall = limits::link_timeout, std::shared_ptr<Budget::Part> budget = nullptr);

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe();

  // -- reading: the event loop ---------------------------------------------------------------------

  enum class Read { done, nothing, failed };

  /// Reads up to `size` bytes without blocking and sets `done` to their number. The end of the connection is a failure.
  Read read(void* data, std::size_t size, std::size_t& done);

  /// Returns whether bytes are buffered here, which the socket no longer reports as readable.
  [[nodiscard]] bool has_pending();

  // -- writing -------------------------------------------------------------------------------------

  /// Sends one message. Writes it at once unless messages follow each other closely: the event loop then sends many
  /// with one system call.
  /// @returns false if the connection has failed, or was retired or closed: the message does not arrive then.
  bool send(std::string_view message);

  enum class Rest { none, some, failed };

  /// Sends `messages` after all earlier ones. Called by the event loop.
  /// @returns `some` if bytes are left: call again when the socket is writable. `none` also if another thread is
  ///          writing, which calls the event loop if anything is left.
  Rest send_rest(std::string_view messages);

  /// Queues `messages` after all earlier ones. Called by the event loop while it waits for the socket.
  /// @returns false if the connection has failed.
  bool keep(std::string_view messages);

  /// Makes `send` refuse from now on; earlier messages are still sent. Waits for a thread that is writing right now.
  void retire();

  /// Ends all sending and calls of the event loop. Waits for a thread that is writing right now.
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
  /// Tells the budget how much waits now.
  void account();
  void fail();
  void await_writer(Lock& lock);
  ssize_t read_ahead(void* data, std::size_t size);

  static constexpr std::size_t ahead = 16U << 10;

  const int socket_;
  const Duration collect_;
  const Duration stall_;
  const std::shared_ptr<Budget::Part> budget_;

  // Guards the session: OpenSSL allows one thread at a time to read or write it.
  std::mutex session_mutex_;
  TlsSession session_;

  // Read-ahead buffer in plaintext: bytes that the socket returned beyond those requested. Used by the event loop only.
  std::unique_ptr<std::array<char, ahead>> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
  bool drained_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  CallLoop call_loop_;
  // Queued messages; the bytes before `waiting_begin_` were already sent.
  Buffer waiting_;
  std::size_t waiting_begin_ = 0;
  // As the budget knows it.
  std::size_t accounted_ = 0;
  TimePoint last_write_{};
  /// When the socket took bytes last.
  TimePoint last_taken_ = Clock::now();
  // A thread is writing or calling the event loop: others leave their bytes to it.
  bool busy_ = false;
  // The event loop was called, or waits for the socket: it will send the queued messages.
  bool loop_comes_ = false;
  bool failed_ = false;
  bool retired_ = false;
  bool closed_ = false;
};

} // namespace gpuactors::transport

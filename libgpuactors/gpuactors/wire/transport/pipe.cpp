#include <gpuactors/wire/transport/pipe.hpp>

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace gpuactors::transport {

namespace {

/// Most bytes that one thread writes at a time; then the event loop turns to other connections.
constexpr std::size_t write_burst = 1U << 20;

/// A larger buffer, grown for a large message, is not kept.
constexpr std::size_t kept_capacity = 1U << 20;

bool is_transient(int error) {
  return error == EAGAIN || error == EINTR;
}

/// Returns whether the session only has to wait for the socket. If not, empties OpenSSL's error queue.
bool has_to_wait(const TlsSession& session, int result) {
  switch (SSL_get_error(session.get(), result)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    return true;
  default:
    ERR_clear_error();
    return false;
  }
}

} // namespace

Pipe::Pipe(int socket, TlsSession session, CallLoop call_loop, Duration collect, Duration stall,
           std::shared_ptr<Budget::Part> budget)
  : socket_(socket), collect_(collect), stall_(stall), budget_(std::move(budget)), session_(std::move(session)),
    call_loop_(std::move(call_loop)) {
  // nop
}

Pipe::~Pipe() {
  Buffer{}.swap(waiting_);
  waiting_begin_ = 0;
  account();
}

// -- reading --------------------------------------------------------------------------------------

Pipe::Read Pipe::read(void* data, std::size_t size, std::size_t& done) {
  done = 0;
  if (session_ != nullptr) {
    const std::lock_guard lock{session_mutex_};
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(session_.get(), data, size, &done);
    if (result == 1)
      return Read::done;
    return has_to_wait(session_, result) ? Read::nothing : Read::failed;
  }
  const auto count = read_ahead(data, size);
  if (count > 0) {
    done = static_cast<std::size_t>(count);
    return Read::done;
  }
  return count < 0 && is_transient(errno) ? Read::nothing : Read::failed;
}

/// Like `recv`, with a read-ahead buffer. Fails with EAGAIN, without a system call, right after the socket returned
/// less than there was room for. CAF reads a message in two pieces, and then tries again to see that there is no other.
/// With one system call for all messages at hand, a single call costs less and a thousand calls cost far less.
ssize_t Pipe::read_ahead(void* data, std::size_t size) {
  if (ahead_begin_ == ahead_end_) {
    if (std::exchange(drained_, false)) {
      errno = EAGAIN;
      return -1;
    }
    if (size >= ahead)
      return ::recv(socket_, data, size, MSG_DONTWAIT);
    if (ahead_ == nullptr)
      ahead_ = std::make_unique<std::array<char, ahead>>();
    const auto count = ::recv(socket_, ahead_->data(), ahead, MSG_DONTWAIT);
    if (count <= 0)
      return count;
    ahead_begin_ = 0;
    ahead_end_ = static_cast<std::size_t>(count);
    drained_ = ahead_end_ < ahead;
  }
  const auto moved = std::min(size, ahead_end_ - ahead_begin_);
  std::memcpy(data, ahead_->data() + ahead_begin_, moved);
  ahead_begin_ += moved;
  return static_cast<ssize_t>(moved);
}

bool Pipe::has_pending() {
  if (session_ == nullptr)
    return ahead_begin_ != ahead_end_;
  const std::lock_guard lock{session_mutex_};
  return SSL_has_pending(session_.get()) == 1;
}

// -- writing --------------------------------------------------------------------------------------

bool Pipe::send(std::string_view message) {
  Lock lock{mutex_};
  if (failed_ || retired_ || closed_)
    return false;
  if (busy_ || loop_comes_ || Clock::now() - last_write_ < collect_)
    leave_behind(message);
  else if (const auto done = write(lock, message); done < message.size())
    put_back(message.substr(done));
  // The event loop must also learn that the connection has failed, in order to end it. A busy thread takes care of the
  // bytes left behind meanwhile.
  if (!busy_)
    call_loop(lock);
  return !failed_;
}

/// Calls the event loop, unless there is nothing for it to do or it was already called. Unlocks the mutex during the
/// call: a full queue of the loop would wait for the loop, and the loop perhaps for the mutex.
void Pipe::call_loop(Lock& lock) {
  // Repeats the call if the loop came while this thread was still marked busy, and so sent nothing.
  while (!closed_ && !loop_comes_ && (failed_ || !waiting_.empty())) {
    loop_comes_ = true;
    busy_ = true;
    lock.unlock();
    call_loop_();
    lock.lock();
    busy_ = false;
    idle_.notify_all();
  }
}

bool Pipe::keep(std::string_view messages) {
  const std::lock_guard lock{mutex_};
  leave_behind(messages);
  return !failed_;
}

Pipe::Rest Pipe::send_rest(std::string_view messages) {
  Lock lock{mutex_};
  loop_comes_ = false;
  if (busy_) {
    leave_behind(messages);
    return Rest::none;
  }
  std::size_t sent = 0;
  bool full = false;
  if (!waiting_.empty()) {
    leave_behind(messages);
  } else if (!messages.empty() && !failed_ && !closed_) {
    sent = write(lock, messages);
    full = sent < messages.size();
    if (full)
      put_back(messages.substr(sent));
  }
  Buffer bytes;
  while (!full && !waiting_.empty() && sent < write_burst) {
    bytes.clear();
    bytes.swap(waiting_);
    auto begin = std::exchange(waiting_begin_, 0);
    const auto done = write(lock, {bytes.data() + begin, bytes.size() - begin});
    sent += done;
    begin += done;
    full = begin < bytes.size();
    if (full)
      put_back(std::exchange(bytes, {}), begin);
  }
  if (failed_) {
    loop_comes_ = true; // the event loop learns of it from the result
    return Rest::failed;
  }
  account();
  if (!waiting_.empty()) {
    loop_comes_ = true;
    return Rest::some;
  }
  if (bytes.capacity() <= kept_capacity) {
    bytes.clear();
    waiting_.swap(bytes); // keeps its memory for the next messages
  }
  return Rest::none;
}

void Pipe::retire() {
  Lock lock{mutex_};
  retired_ = true;
  await_writer(lock);
}

void Pipe::close() {
  Lock lock{mutex_};
  closed_ = true;
  await_writer(lock);
  call_loop_ = nullptr;
  Buffer{}.swap(waiting_);
  waiting_begin_ = 0;
  account();
}

/// Waits for the writing thread, which is quick: a write never blocks on the socket and is at most one burst.
void Pipe::await_writer(Lock& lock) {
  idle_.wait(lock, [this] { return !busy_; });
}

void Pipe::leave_behind(std::string_view bytes) {
  if (failed_ || closed_)
    return;
  // A peer that shows that it lives and takes nothing must not cost the process, and all others that it serves, its
  // memory.
  if (waiting_.size() - waiting_begin_ > limits::link_waiting_bytes && Clock::now() - last_taken_ > stall_)
    return fail();
  if (budget_ != nullptr && accounted_ > 0 && budget_->is_overdrawn())
    return fail();
  try {
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  } catch (const std::bad_alloc&) {
    return fail();
  }
  account();
}

void Pipe::account() {
  if (budget_ == nullptr)
    return;
  const auto now = waiting_.size() - waiting_begin_;
  budget_->add(now - accounted_); // modulo 2^64: it may be less
  accounted_ = now;
}

/// Queues bytes that were not sent, ahead of those that arrived meanwhile.
void Pipe::put_back(std::string_view bytes) {
  try {
    put_back({bytes.begin(), bytes.end()}, 0);
  } catch (const std::bad_alloc&) {
    fail();
  }
}

/// Like the overload above, for the bytes from `begin` on.
void Pipe::put_back(Buffer bytes, std::size_t begin) {
  if (failed_ || closed_)
    return;
  // The rest is moved to the front only when at least as much was sent as is left, so that a long queue is not copied
  // for each piece sent.
  if (begin >= bytes.size() - begin)
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::exchange(begin, 0)));
  try {
    bytes.insert(bytes.end(), waiting_.begin(), waiting_.end());
  } catch (const std::bad_alloc&) {
    return fail();
  }
  waiting_.swap(bytes);
  waiting_begin_ = begin;
  account();
}

/// Marks the connection as failed. Lack of memory is a reason too: if the rest of a message were dropped, the peer
/// would take the next bytes for it.
void Pipe::fail() {
  failed_ = true;
  // It may be waiting for a socket that takes nothing any more.
  loop_comes_ = false;
  Buffer{}.swap(waiting_);
  waiting_begin_ = 0;
  account();
}

/// Writes with the mutex unlocked. @returns how many bytes the socket took.
std::size_t Pipe::write(Lock& lock, std::string_view bytes) {
  busy_ = true;
  lock.unlock();
  std::size_t done = 0;
  const bool works = session_ != nullptr ? write_session(bytes, done) : write_plain(bytes, done);
  lock.lock();
  busy_ = false;
  last_write_ = Clock::now();
  if (done > 0)
    last_taken_ = last_write_;
  if (!works)
    fail();
  idle_.notify_all();
  return done;
}

bool Pipe::write_plain(std::string_view bytes, std::size_t& done) {
  bytes = bytes.substr(0, write_burst);
  while (done < bytes.size()) {
    const auto count = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0)
      return is_transient(errno);
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool Pipe::write_session(std::string_view bytes, std::size_t& done) {
  // A TLS record holds 16 KiB: this loop writes several, so that a large message does not take a turn of the event loop
  // for each.
  while (done < std::min(bytes.size(), write_burst)) {
    std::size_t written = 0;
    const std::lock_guard lock{session_mutex_};
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write_ex(session_.get(), bytes.data() + done, bytes.size() - done, &written);
    if (result != 1)
      return has_to_wait(session_, result);
    done += written;
  }
  return true;
}

} // namespace gpuactors::transport

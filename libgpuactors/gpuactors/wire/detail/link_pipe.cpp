#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/detail/link_pipe.hpp>

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gpuactors::detail {

namespace {

/// Bytes that one thread writes in a row; then the event loop has other connections to look after.
constexpr std::size_t write_burst = 1U << 20;

/// A buffer that was needed once for a large message is not kept.
constexpr std::size_t kept_capacity = 1U << 20;

bool is_transient(int error) {
  return error == EAGAIN || error == EINTR;
}

/// Whether the session only has to wait. Empties OpenSSL's queue of errors otherwise.
bool has_to_wait(const transport::TlsSession& tls, int result) {
  switch (SSL_get_error(tls.get(), result)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    return true;
  default:
    ERR_clear_error();
    return false;
  }
}

void reset(LinkPipe::Buffer& buffer) {
  buffer.clear();
  if (buffer.capacity() > kept_capacity)
    LinkPipe::Buffer{}.swap(buffer);
}

} // namespace

LinkPipe::LinkPipe(int socket, transport::TlsSession tls, CallLoop call_loop)
  : socket_(socket), tls_(std::move(tls)), call_loop_(std::move(call_loop)) {
  // nop
}

// -- reading --------------------------------------------------------------------------------------

LinkPipe::Read LinkPipe::read(void* data, std::size_t size, std::size_t& done) {
  done = 0;
  if (tls_ != nullptr) {
    const std::lock_guard lock{session_mutex_};
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(tls_.get(), data, size, &done);
    if (result == 1)
      return Read::done;
    return has_to_wait(tls_, result) ? Read::nothing : Read::failed;
  }
  const auto count = read_ahead(data, size);
  if (count > 0) {
    done = static_cast<std::size_t>(count);
    return Read::done;
  }
  return count < 0 && is_transient(errno) ? Read::nothing : Read::failed;
}

/// As `recv`; fails with EAGAIN, without asking, right after the socket had less than there was room for. CAF reads a
/// message in two pieces, and asks once more to see that there is no other: with one system call for as many messages
/// as there are, a call costs less and a thousand cost far less.
ssize_t LinkPipe::read_ahead(void* data, std::size_t size) {
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

bool LinkPipe::has_pending() {
  if (tls_ == nullptr)
    return ahead_begin_ != ahead_end_;
  const std::lock_guard lock{session_mutex_};
  return SSL_has_pending(tls_.get()) == 1;
}

// -- writing --------------------------------------------------------------------------------------

bool LinkPipe::send(Buffer& message) {
  std::unique_lock lock{mutex_};
  if (failed_ || closed_)
    return false;
  if (writing_ || loop_comes_ || Clock::now() - last_write_ < limits::link_collect) {
    leave_behind(message);
    // Whoever is writing now sees to what came meanwhile.
    if (!writing_ && !std::exchange(loop_comes_, true))
      call_loop_();
    return true;
  }
  write_out(lock, message, 0);
  // The event loop ends the connection, as it does when it is told so itself.
  if ((failed_ || !waiting_.empty()) && !closed_ && !std::exchange(loop_comes_, true))
    call_loop_();
  return !failed_;
}

void LinkPipe::keep(Buffer& messages) {
  const std::lock_guard lock{mutex_};
  leave_behind(messages);
}

LinkPipe::Rest LinkPipe::send_rest(Buffer& messages) {
  std::unique_lock lock{mutex_};
  leave_behind(messages);
  loop_comes_ = false;
  // A thread that writes now calls the loop if anything is left.
  if (closed_ || writing_)
    return Rest::none;
  Buffer bytes;
  std::size_t sent = 0;
  bool all = true;
  while (all && !waiting_.empty() && sent < write_burst) {
    bytes.clear();
    bytes.swap(waiting_);
    sent += bytes.size();
    all = write_out(lock, bytes, std::exchange(waiting_begin_, 0));
  }
  if (failed_)
    return Rest::failed;
  if (waiting_.empty()) {
    waiting_.swap(bytes); // keeps its memory
    reset(waiting_);
    return Rest::none;
  }
  loop_comes_ = true;
  return Rest::some;
}

void LinkPipe::close() {
  std::unique_lock lock{mutex_};
  closed_ = true;
  idle_.wait(lock, [this] { return !writing_; });
  call_loop_ = nullptr;
  Buffer{}.swap(waiting_);
}

/// Leaves `bytes` empty.
void LinkPipe::leave_behind(Buffer& bytes) {
  if (failed_ || closed_)
    bytes.clear();
  else if (waiting_.empty())
    waiting_.swap(bytes);
  else
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  bytes.clear();
}

/// Writes `bytes` from `begin` on, without the lock. What the socket did not take waits, before what came meanwhile.
/// @returns whether it took all.
bool LinkPipe::write_out(std::unique_lock<std::mutex>& lock, Buffer& bytes, std::size_t begin) {
  writing_ = true;
  lock.unlock();
  std::size_t done = 0;
  const auto outcome = write(reinterpret_cast<const char*>(bytes.data()) + begin, bytes.size() - begin, done);
  lock.lock();
  writing_ = false;
  last_write_ = Clock::now();
  if (closed_)
    idle_.notify_all();
  if (outcome == Outcome::failed) {
    failed_ = true;
    Buffer{}.swap(waiting_);
    return false;
  }
  begin += done;
  if (begin == bytes.size())
    return true;
  // Moved only when as much was sent as is left, so that a long queue is not copied for each piece of it.
  if (begin >= bytes.size() - begin)
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::exchange(begin, 0)));
  bytes.insert(bytes.end(), waiting_.begin(), waiting_.end());
  waiting_.swap(bytes);
  waiting_begin_ = begin;
  return false;
}

LinkPipe::Outcome LinkPipe::write(const char* data, std::size_t size, std::size_t& done) {
  if (tls_ != nullptr)
    return write_session(data, size, done);
  while (done < std::min(size, write_burst)) {
    const auto count = ::send(socket_, data + done, std::min(size, write_burst) - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0)
      return is_transient(errno) ? Outcome::full : Outcome::failed;
    done += static_cast<std::size_t>(count);
  }
  return done < size ? Outcome::full : Outcome::all;
}

LinkPipe::Outcome LinkPipe::write_session(const char* data, std::size_t size, std::size_t& done) {
  // A record is 16 KiB: many in a row, so that a large message does not go through the event loop for each.
  while (done < std::min(size, write_burst)) {
    std::size_t written = 0;
    const std::lock_guard lock{session_mutex_};
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write_ex(tls_.get(), data + done, size - done, &written);
    if (result != 1)
      return has_to_wait(tls_, result) ? Outcome::full : Outcome::failed;
    done += written;
  }
  return done < size ? Outcome::full : Outcome::all;
}

} // namespace gpuactors::detail

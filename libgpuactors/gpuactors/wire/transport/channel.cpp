#include "channel.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpuactors::transport {

namespace {

constexpr std::size_t passed_most = 2;

/// A buffer for the descriptors sent with a frame.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * passed_most)];
};

Failure ended() {
  return fail(Errc::worker_died, "the other side ended the connection");
}

Failure fail_errno(int error) {
  if (error == 0 || error == ECONNRESET || error == EPIPE)
    return ended();
  return fail(Errc::unavailable, errno_text(error));
}

bool is_passing(int error) {
  return error == EAGAIN || error == EINTR;
}

/// Takes the descriptors out of a message and closes the surplus ones.
void take(msghdr& message, Passed& passed) {
  for (auto* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS)
      continue;
    const auto count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(item) + i * sizeof number, sizeof number);
      Descriptor owned{number};
      if (!passed.memory)
        passed.memory = std::move(owned);
      else if (!passed.token)
        passed.token = std::move(owned);
    }
  }
}

} // namespace

Result<void> Channel::wait(short events, TimePoint until) const {
  return wait_for(socket_.get(), events, *stop_, until);
}

// -- TLS ------------------------------------------------------------------------------------------

Result<void> Channel::go_on(int result, TimePoint until) const {
  const int error = errno;
  switch (SSL_get_error(session_.get(), result)) {
  case SSL_ERROR_WANT_READ:
    return wait(POLLIN, until);
  case SSL_ERROR_WANT_WRITE:
    return wait(POLLOUT, until);
  case SSL_ERROR_ZERO_RETURN:
    return ended();
  case SSL_ERROR_SYSCALL:
    ERR_clear_error();
    return fail_errno(error);
  default:
    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
      ERR_clear_error();
      return ended();
    }
    return fail(Errc::unavailable, "TLS: " + tls_error());
  }
}

/// Says what is wrong with the peer's certificate, if that is why a handshake has failed.
Failure Channel::refusal(const Error& error) const {
  const auto why = SSL_get_verify_result(session_.get());
  if (why == X509_V_OK)
    return fail(error);
  return fail(error.code(), fmt::format("{}: {}", error.message(), X509_verify_cert_error_string(why)));
}

Result<void> Channel::secure(const TlsContext& context, TlsPart part, TimePoint until) {
  GPUACTORS_LET(session, context.open(socket_.get(), part));
  session_ = std::move(session);
  for (;;) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_do_handshake(session_.get());
    if (result == 1)
      return {};
    if (auto more = go_on(result, until); !more) {
      if (more.error().code() != Errc::unavailable)
        return more;
      linger(until);
      return refusal(more.error());
    }
  }
}

Result<std::size_t> Channel::move_secure(Move move, std::byte* data, std::size_t size, TimePoint until) {
  for (;;) {
    ERR_clear_error();
    errno = 0;
    std::size_t moved = 0;
    const int result = move(session_.get(), data, size, &moved);
    if (result == 1)
      return moved;
    GPUACTORS_TRY(go_on(result, until));
  }
}

Result<void> Channel::wait_for_bytes(TimePoint until) {
  if (session_ == nullptr)
    return wait(POLLIN, until);
  std::byte first{};
  GPUACTORS_TRY(
      move_secure([](SSL* s, std::byte* to, std::size_t n, std::size_t* done) { return SSL_peek_ex(s, to, n, done); },
                  &first, 1, until));
  return {};
}

/// Ends the sending side and drains the socket: closing a socket with unread bytes resets the connection, and the peer
/// would not read the alert that says why.
void Channel::linger(TimePoint until) const {
  constexpr int most_reads = 64; // a refused peer has at most one request in flight
  ::shutdown(socket_.get(), SHUT_WR);
  std::byte ignored[1024];
  for (int i = 0; i < most_reads; ++i) {
    const auto got = ::recv(socket_.get(), ignored, sizeof ignored, 0);
    if (got == 0 || (got < 0 && !is_passing(errno)) || (got < 0 && !wait(POLLIN, until)))
      return;
  }
}

// -- bytes ----------------------------------------------------------------------------------------

Result<std::size_t> Channel::read_some(std::byte* data, std::size_t size, TimePoint until) {
  if (session_ != nullptr)
    return move_secure(
        [](SSL* s, std::byte* to, std::size_t n, std::size_t* done) { return SSL_read_ex(s, to, n, done); }, data, size,
        until);
  for (;;) {
    const auto got = ::recv(socket_.get(), data, size, 0);
    if (got > 0)
      return static_cast<std::size_t>(got);
    if (got == 0)
      return ended();
    if (!is_passing(errno))
      return fail_errno(errno);
    GPUACTORS_TRY(wait(POLLIN, until));
  }
}

Result<std::size_t> Channel::write_some(const std::byte* data, std::size_t size, TimePoint until) {
  if (session_ != nullptr)
    return move_secure(
        [](SSL* s, std::byte* from, std::size_t n, std::size_t* done) { return SSL_write_ex(s, from, n, done); },
        const_cast<std::byte*>(data), size, until);
  for (;;) {
    const auto sent = ::send(socket_.get(), data, size, MSG_NOSIGNAL);
    if (sent >= 0)
      return static_cast<std::size_t>(sent);
    if (!is_passing(errno))
      return fail_errno(errno);
    GPUACTORS_TRY(wait(POLLOUT, until));
  }
}

/// Returns the time by which the next part must have been moved. Checks `stop` and `until` itself, because a transfer
/// that always makes progress never waits.
Result<TimePoint> Channel::next_stop(Duration progress, TimePoint until) const {
  const auto now = Clock::now();
  if (stop_->is_set())
    return fail(Errc::cancelled, "closed");
  if (now >= until)
    return fail(Errc::deadline_exceeded, "the time is over");
  return std::min(until, deadline_after(now, progress));
}

Result<void> Channel::read_all(std::byte* data, std::size_t size, Duration progress, TimePoint until,
                               std::size_t& done) {
  for (done = 0; done < size;) {
    GPUACTORS_LET(next, next_stop(progress, until));
    GPUACTORS_LET(got, read_some(data + done, std::min(size - done, limits::bulk_chunk), next));
    done += got;
  }
  return {};
}

Result<void> Channel::write_all(const std::byte* data, std::size_t size, Duration progress, TimePoint until) {
  for (std::size_t done = 0; done < size;) {
    GPUACTORS_LET(next, next_stop(progress, until));
    GPUACTORS_LET(sent, write_some(data + done, std::min(size - done, limits::bulk_chunk), next));
    done += sent;
  }
  return {};
}

// -- frames ---------------------------------------------------------------------------------------

Result<void> Channel::read_frame(Frame& frame, TimePoint until) {
  std::size_t done = 0;
  return read_all(frame.data(), frame.size(), Duration::max(), until, done);
}

Result<void> Channel::write_frame(const Frame& frame, TimePoint until) {
  return write_all(frame.data(), frame.size(), Duration::max(), until);
}

Result<void> Channel::read_frame(Frame& frame, Passed& passed, TimePoint until) {
  for (std::size_t done = 0; done < frame.size();) {
    iovec part{frame.data() + done, frame.size() - done};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    const auto got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got == 0)
      return ended();
    if (got < 0 && !is_passing(errno))
      return fail_errno(errno);
    if (got < 0) {
      GPUACTORS_TRY(wait(POLLIN, until));
      continue;
    }
    take(message, passed);
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> Channel::write_frame(const Frame& frame, const RegionDescriptors& descriptors, TimePoint until) {
  const int numbers[passed_most] = {descriptors.memory, descriptors.token};
  Control control{};
  iovec part{const_cast<std::byte*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  auto* item = CMSG_FIRSTHDR(&message);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(item), numbers, sizeof numbers);
  for (;;) {
    const auto sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) // the descriptors go with the first byte
      return write_all(frame.data() + sent, frame.size() - static_cast<std::size_t>(sent), Duration::max(), until);
    if (!is_passing(errno))
      return fail_errno(errno);
    GPUACTORS_TRY(wait(POLLOUT, until));
  }
}

// -- ends -----------------------------------------------------------------------------------------

bool Channel::is_stale() const {
  std::byte ignored{};
  return ::recv(socket_.get(), &ignored, 1, MSG_PEEK) >= 0 || !is_passing(errno);
}

void Channel::interrupt() const noexcept {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

} // namespace gpuactors::transport

// One thread, poll(), and for each connection: reading, answering, writing, then closing without a reset.
#include "http_page.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuactors::cli {

namespace {

/// How long the server does not accept after the system had no descriptor left.
constexpr std::chrono::milliseconds accept_pause{100};

/// How long a connection is read to its end after the answer: a close with unread bytes would take the answer back.
constexpr std::chrono::milliseconds closing_patience{500};

/// A descriptor that is closed.
class Descriptor {
public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {
    // nop
  }

  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {
    // nop
  }

  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  ~Descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }

  [[nodiscard]] int get() const noexcept {
    return number_;
  }

private:
  int number_;
};

/// Answers on their way to the thread that serves, and what wakes it.
class Mailbox {
public:
  Mailbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    // nop
  }

  void put(std::uint64_t connection, PageAnswer answer) {
    {
      const std::lock_guard lock{mutex_};
      answers_.emplace_back(connection, std::move(answer));
    }
    wake();
  }

  void wake() const noexcept {
    ::eventfd_write(wake_.get(), 1);
  }

  [[nodiscard]] int descriptor() const noexcept {
    return wake_.get();
  }

  std::vector<std::pair<std::uint64_t, PageAnswer>> take() {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    const std::lock_guard lock{mutex_};
    return std::exchange(answers_, {});
  }

private:
  Descriptor wake_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, PageAnswer>> answers_;
};

struct PageConnection {
  enum class Phase : std::uint8_t { reading, answering, writing, closing, over };

  Descriptor socket;
  Phase phase = Phase::reading;
  TimePoint deadline;
  std::string in;
  std::string out;
  std::size_t written = 0;
  bool head_only = false;
};

using Phase = PageConnection::Phase;

std::string_view reason_of(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 400:
    return "Bad Request";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 431:
    return "Request Header Fields Too Large";
  case 503:
    return "Service Unavailable";
  default:
    return "Unknown";
  }
}

std::string rendered(const PageAnswer& answer, bool head_only) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
                     "{}Connection: close\r\n\r\n{}",
                     answer.status, reason_of(answer.status), answer.type, answer.body.size(),
                     answer.status == 405 ? "Allow: GET, HEAD\r\n" : "", head_only ? "" : answer.body);
}

/// The request line in parts.
struct RequestLine {
  std::string_view method;
  std::string_view target;
};

std::optional<RequestLine> parse_request_line(std::string_view head) {
  const auto line = head.substr(0, head.find("\r\n"));
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == 0 || first == std::string_view::npos || last <= first + 1)
    return std::nullopt;
  const RequestLine parts{line.substr(0, first), line.substr(first + 1, last - first - 1)};
  const auto version = line.substr(last + 1);
  if ((version != "HTTP/1.1" && version != "HTTP/1.0") || !parts.target.starts_with('/')
      || parts.target.find(' ') != std::string_view::npos)
    return std::nullopt;
  return parts;
}

std::string error_text(int number) {
  return std::strerror(number);
}

} // namespace

class HttpPage::Impl {
public:
  Impl(Descriptor listener, Endpoint endpoint, PageLimits limits)
    : listener_(std::move(listener)), endpoint_(std::move(endpoint)), limits_(limits) {
    // nop
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  Result<void> serve(const PageHandler& handler, const std::stop_token& stop) {
    if (mailbox_->descriptor() < 0)
      return fail(Errc::internal, "there is no descriptor left for the HTTP server");
    const std::stop_callback wake{stop, [mailbox = mailbox_] { mailbox->wake(); }};
    while (!stop.stop_requested())
      GPUACTORS_TRY(turn(handler));
    connections_.clear();
    return {};
  }

private:
  /// Waits for something to do, and does it.
  Result<void> turn(const PageHandler& handler) {
    std::vector<pollfd> polled;
    std::vector<std::uint64_t> ids;
    const auto now = Clock::now();
    const bool accepts = connections_.size() < limits_.connections && now >= accept_again_;
    polled.push_back({mailbox_->descriptor(), POLLIN, 0});
    polled.push_back({listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0});
    auto next = accept_again_ > now ? accept_again_ : never;
    for (const auto& [id, connection] : connections_) {
      ids.push_back(id);
      polled.push_back({connection.socket.get(), events_of(connection), 0});
      next = std::min(next, connection.deadline);
    }
    if (::poll(polled.data(), polled.size(), timeout_until(next, now)) < 0 && errno != EINTR)
      return fail(Errc::internal, "poll of the HTTP server failed: " + error_text(errno));
    for (auto& [id, answer] : mailbox_->take())
      if (const auto found = connections_.find(id);
          found != connections_.end() && found->second.phase == Phase::answering)
        answer_with(found->second, answer);
    for (std::size_t i = 0; i < ids.size(); ++i)
      advance(ids[i], connections_.at(ids[i]), polled[i + 2].revents, handler);
    std::erase_if(connections_, [](const auto& item) { return item.second.phase == Phase::over; });
    if ((polled[1].revents & POLLIN) != 0)
      accept_all();
    return {};
  }

  static short events_of(const PageConnection& connection) {
    switch (connection.phase) {
    case Phase::reading:
    case Phase::closing:
      return POLLIN;
    case Phase::writing:
      return POLLOUT;
    default:
      return 0; // its end is told in any case
    }
  }

  static int timeout_until(TimePoint next, TimePoint now) {
    constexpr std::chrono::minutes longest{1};
    if (next <= now)
      return 0;
    const auto wait = std::min<Duration>(next == never ? Duration{longest} : next - now, longest);
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
  }

  void accept_all() {
    while (connections_.size() < limits_.connections) {
      Descriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (socket.get() < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          accept_again_ = Clock::now() + accept_pause;
        return; // none is left; one that broke off before it was accepted is the next turn's
      }
      auto& connection = connections_[++last_id_];
      connection.socket = std::move(socket);
      connection.deadline = deadline_after(Clock::now(), limits_.patience);
    }
  }

  void advance(std::uint64_t id, PageConnection& connection, short events, const PageHandler& handler) {
    if (connection.phase == Phase::reading && (events & (POLLIN | POLLHUP | POLLERR)) != 0)
      read(id, connection, handler);
    else if (connection.phase == Phase::closing && (events & (POLLIN | POLLHUP | POLLERR)) != 0)
      drain(connection);
    else if (connection.phase == Phase::answering && (events & (POLLHUP | POLLERR)) != 0)
      connection.phase = Phase::over;
    if (connection.phase == Phase::writing)
      write(connection);
    if (connection.deadline > Clock::now())
      return;
    if (connection.phase == Phase::reading)
      answer_with(connection, {408, PageAnswer{}.type, "the request did not come in time\n"});
    else if (connection.phase == Phase::answering)
      answer_with(connection, {503, PageAnswer{}.type, "there was no answer in time\n"});
    else
      connection.phase = Phase::over;
  }

  void read(std::uint64_t id, PageConnection& connection, const PageHandler& handler) {
    std::array<char, 4096> buffer{};
    for (;;) {
      const auto count = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        connection.phase = Phase::over;
        return;
      }
      if (count < 0) {
        if (errno == EINTR)
          continue;
        return;
      }
      connection.in.append(buffer.data(), static_cast<std::size_t>(count));
      const auto end = connection.in.find("\r\n\r\n");
      if (std::min(end, connection.in.size()) > limits_.request_bytes)
        return answer_with(connection, {431, PageAnswer{}.type,
                                        fmt::format("a request has at most {} bytes\n", limits_.request_bytes)});
      if (end != std::string::npos)
        return ask(id, connection, handler);
    }
  }

  void ask(std::uint64_t id, PageConnection& connection, const PageHandler& handler) {
    const auto line = parse_request_line(connection.in);
    if (!line)
      return answer_with(connection, {400, PageAnswer{}.type, "this is no request of HTTP/1\n"});
    connection.head_only = line->method == "HEAD";
    if (line->method != "GET" && !connection.head_only)
      return answer_with(connection, {405, PageAnswer{}.type, "GET and HEAD are what there is\n"});
    connection.phase = Phase::answering;
    connection.deadline = deadline_after(Clock::now(), limits_.patience);
    const PageRequest request{std::string{line->target.substr(0, line->target.find('?'))}};
    handler(request, [mailbox = mailbox_, id](PageAnswer answer) { mailbox->put(id, std::move(answer)); });
  }

  void answer_with(PageConnection& connection, const PageAnswer& answer) {
    connection.out = rendered(answer, connection.head_only);
    connection.phase = Phase::writing;
    connection.deadline = deadline_after(Clock::now(), limits_.patience);
    write(connection);
  }

  static void write(PageConnection& connection) {
    while (connection.written < connection.out.size()) {
      const auto count = ::send(connection.socket.get(), connection.out.data() + connection.written,
                                connection.out.size() - connection.written, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0) {
        if (errno != EAGAIN)
          connection.phase = Phase::over;
        return;
      }
      connection.written += static_cast<std::size_t>(count);
    }
    ::shutdown(connection.socket.get(), SHUT_WR);
    connection.phase = Phase::closing;
    connection.deadline = deadline_after(Clock::now(), closing_patience);
  }

  /// Reads what still comes, and forgets it; at most one buffer a turn.
  static void drain(PageConnection& connection) {
    std::array<char, 4096> buffer{};
    const auto count = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      connection.phase = Phase::over;
  }

  Descriptor listener_;
  Endpoint endpoint_;
  PageLimits limits_;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::map<std::uint64_t, PageConnection> connections_;
  std::uint64_t last_id_ = 0;
  TimePoint accept_again_{};
};

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept {
    ::freeaddrinfo(list);
  }
};

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return 0;
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

} // namespace

Result<HttpPage> HttpPage::listen(const Endpoint& endpoint, PageLimits limits) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
      code != 0)
    return fail(Errc::invalid_argument,
                fmt::format("the host \"{}\" has no address: {}", endpoint.host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses{found};
  int error = 0;
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Descriptor socket{::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.get() >= 0 && ::bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0
        && ::listen(socket.get(), static_cast<int>(limits.connections)) == 0) {
      const Endpoint at{endpoint.host, port_of(socket.get())};
      return HttpPage{std::make_unique<Impl>(std::move(socket), at, limits)};
    }
    error = errno;
  }
  return fail(Errc::unavailable, fmt::format("cannot listen at {}: {}", to_string(endpoint), error_text(error)));
}

HttpPage::HttpPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  // nop
}

HttpPage::HttpPage(HttpPage&&) noexcept = default;
HttpPage& HttpPage::operator=(HttpPage&&) noexcept = default;
HttpPage::~HttpPage() = default;

Endpoint HttpPage::endpoint() const {
  return impl_->endpoint();
}

Result<void> HttpPage::serve(const PageHandler& handler, const std::stop_token& stop) {
  return impl_->serve(handler, stop);
}

} // namespace gpuactors::cli

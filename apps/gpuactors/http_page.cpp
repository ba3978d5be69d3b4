// HttpPage on GNU libmicrohttpd, which the thread of `serve` runs. A request that waits for its reply is suspended in
// the library.
#include "http_page.hpp"

#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace gpuactors::cli {

namespace {

/// How long the server waits for events before it checks the stop token and the deadlines.
constexpr std::chrono::milliseconds longest_wait{100};

/// Whether a request names a host of this machine alone. A page in a browser can have its own name lead here, and would
/// read what comes back; its requests name that host.
bool names_loopback(MHD_Connection* connection) {
  const char* const field = ::MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
  if (field == nullptr)
    return true; // no browser
  std::string_view host{field};
  if (host.starts_with('['))
    return is_loopback(host.substr(1, host.find(']') - 1));
  return is_loopback(host.substr(0, host.find(':')));
}

/// One connection and its one request. `reply` may be called on any thread, all else on the serving thread.
class Exchange {
public:
  Exchange(MHD_Connection* connection, Duration patience) : connection_(connection), patience_(patience) {
    enter(Phase::reading);
  }

  /// Suspends the request until there is a reply.
  void wait() {
    const std::lock_guard lock{mutex_};
    ::MHD_suspend_connection(connection_);
    enter(Phase::waiting);
  }

  /// Takes the first reply; drops later ones. libmicrohttpd then calls `on_request` again, which writes the reply.
  void reply(PageAnswer answer) {
    const std::lock_guard lock{mutex_};
    if (phase_ != Phase::waiting)
      return;
    phase_ = Phase::replied;
    answer_ = std::move(answer);
    ::MHD_resume_connection(connection_);
  }

  /// Writes the reply. @returns nothing if there is no reply yet.
  std::optional<MHD_Result> write() {
    const std::lock_guard lock{mutex_};
    if (phase_ != Phase::replied)
      return std::nullopt;
    enter(Phase::writing);
    auto* response = ::MHD_create_response_from_buffer(answer_.body.size(), answer_.body.data(), MHD_RESPMEM_MUST_COPY);
    ::MHD_add_response_header(response, "Content-Type", answer_.type.c_str());
    ::MHD_add_response_header(response, "Cache-Control", "no-store");
    ::MHD_add_response_header(response, "Connection", "close");
    for (const auto& [name, value] : answer_.headers)
      ::MHD_add_response_header(response, name.c_str(), value.c_str());
    if (answer_.status == MHD_HTTP_METHOD_NOT_ALLOWED)
      ::MHD_add_response_header(response, "Allow", "GET, HEAD");
    const auto queued = ::MHD_queue_response(connection_, static_cast<unsigned>(answer_.status), response);
    ::MHD_destroy_response(response);
    return queued;
  }

  /// Waits until no thread is inside `reply` any more.
  void close() {
    const std::lock_guard lock{mutex_};
  }

  void check_deadline(TimePoint now) {
    std::unique_lock lock{mutex_};
    if (now < deadline_ || phase_ == Phase::replied)
      return;
    if (phase_ == Phase::waiting) {
      lock.unlock();
      return reply({503, PageAnswer{}.type, "there was no answer in time\n"});
    }
    // libmicrohttpd then reads the end of the connection and closes it.
    ::shutdown(::MHD_get_connection_info(connection_, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, SHUT_RDWR);
  }

private:
  enum class Phase : std::uint8_t { reading, waiting, replied, writing };

  void enter(Phase phase) {
    phase_ = phase;
    deadline_ = deadline_after(Clock::now(), patience_);
  }

  MHD_Connection* connection_;
  Duration patience_;
  std::mutex mutex_;
  Phase phase_ = Phase::reading;
  TimePoint deadline_;
  PageAnswer answer_;
};

} // namespace

class HttpPage::Impl {
public:
  Impl(Endpoint endpoint, PageLimits limits) : endpoint_(std::move(endpoint)), limits_(limits) {
    // nop
  }

  /// Listens at `address`. @returns false on failure; errno then says why.
  bool listen(const sockaddr* address) {
    const auto flags = static_cast<unsigned>(MHD_USE_AUTO) | MHD_ALLOW_SUSPEND_RESUME
                       | (address->sa_family == AF_INET6 ? MHD_USE_DUAL_STACK : MHD_NO_FLAG);
    daemon_.reset(::MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::on_request, this, MHD_OPTION_SOCK_ADDR, address,
                                     MHD_OPTION_NOTIFY_CONNECTION, &Impl::on_connection, this,
                                     MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(limits_.connections),
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.memory_bytes, MHD_OPTION_END));
    if (daemon_ != nullptr)
      endpoint_.port = ::MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_BIND_PORT)->port;
    return daemon_ != nullptr;
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

  Result<void> serve(const PageHandler& handler, const std::stop_token& stop) {
    handler_ = &handler;
    bool works = true;
    while (works && !stop.stop_requested()) {
      works = ::MHD_run_wait(daemon_.get(), static_cast<int>(longest_wait.count())) == MHD_YES;
      for (const auto& [connection, exchange] : exchanges_)
        exchange->check_deadline(Clock::now());
    }
    // No connection may be suspended when the daemon ends.
    for (const auto& [connection, exchange] : exchanges_)
      exchange->reply({503, PageAnswer{}.type, "the server ends\n"});
    return works ? Result<void>{} : fail(Errc::internal, "the HTTP server cannot wait for requests");
  }

private:
  static void on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                            MHD_ConnectionNotificationCode code) noexcept {
    auto& impl = *static_cast<Impl*>(self);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
      impl.exchanges_[connection] = std::make_shared<Exchange>(connection, impl.limits_.patience);
    else if (const auto found = impl.exchanges_.extract(connection))
      found.mapped()->close();
  }

  /// Called when the headers have arrived, for each piece of a body, when the request is complete, and after a reply.
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                               const char* /*version*/, const char* /*data*/, std::size_t* data_size,
                               void** seen) noexcept {
    auto& impl = *static_cast<Impl*>(self);
    const auto exchange = impl.exchanges_.at(connection);
    if (const auto written = exchange->write())
      return *written;
    if (std::exchange(*seen, &impl) == nullptr || std::exchange(*data_size, 0) != 0)
      return MHD_YES;
    exchange->wait();
    if (is_loopback(impl.endpoint_.host) && !names_loopback(connection))
      exchange->reply({403, PageAnswer{}.type, "this is read on its own machine: as 127.0.0.1 or localhost\n"});
    else if (std::string_view{method} == "GET" || std::string_view{method} == "HEAD")
      (*impl.handler_)({url}, [exchange](PageAnswer answer) { exchange->reply(std::move(answer)); });
    else
      exchange->reply({405, PageAnswer{}.type, "GET and HEAD are what there is\n"});
    return MHD_YES;
  }

  Endpoint endpoint_;
  PageLimits limits_;
  const PageHandler* handler_ = nullptr;
  std::map<MHD_Connection*, std::shared_ptr<Exchange>> exchanges_;
  // The last member, because its end closes the connections, which uses the others.
  std::unique_ptr<MHD_Daemon, void (*)(MHD_Daemon*)> daemon_{nullptr, &::MHD_stop_daemon};
};

Result<HttpPage> HttpPage::listen(const Endpoint& endpoint, PageLimits limits) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
      code != 0)
    return fail(Errc::invalid_argument,
                fmt::format("the host \"{}\" has no address: {}", endpoint.host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses{found, &::freeaddrinfo};
  auto impl = std::make_unique<Impl>(endpoint, limits);
  for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next)
    if (impl->listen(address->ai_addr))
      return HttpPage{std::move(impl)};
  const int error = errno;
  return fail(Errc::unavailable,
              fmt::format("cannot listen at {}: {}{}", to_string(endpoint), std::strerror(error),
                          error == EADDRINUSE ? "; --listen names another port, 0 any that is free" : ""));
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

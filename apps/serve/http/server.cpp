#include <apps/serve/http/connection.hpp>
#include <apps/serve/http/loop.hpp>
#include <apps/serve/http/server.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace serve {

namespace asio = boost::asio;

using gpuactors::Endpoint;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;
using Tcp = asio::ip::tcp;

namespace {

using namespace std::chrono_literals;

// How long nothing is accepted when the process has no file descriptor left.
constexpr gpuactors::Duration accept_pause = 50ms;
// How often `stop` looks whether all is answered, and how long it waits for what was given up.
constexpr gpuactors::Duration stop_poll = 5ms;
constexpr gpuactors::Duration give_up_time = 2s;
// So many connections more than allowed are told that they are too many; further ones are just closed.
constexpr std::size_t turned_away_at_once = 256;

Result<std::shared_ptr<asio::ssl::context>> open_tls(const std::optional<TlsFiles>& files) {
  if (!files)
    return std::shared_ptr<asio::ssl::context>{};
  GPUACTORS_TRY(check_tls(*files));
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1
                           | asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression,
                       error);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  if (!error)
    context->use_certificate_chain_file(files->certificate.string(), error);
  if (!error)
    context->use_private_key_file(files->key.string(), asio::ssl::context::pem, error);
  if (error) // replaced since
    return fail(Errc::invalid_argument,
                fmt::format("the certificate {} cannot be used: {}", files->certificate.string(), error.message()));
  return context;
}

/// Has the system find out within about two minutes that a client has vanished without a word: while it waits for an
/// answer, nothing is sent that would tell.
void watch_peer(Socket& socket) {
  constexpr int on = 1;
  constexpr int idle_seconds = 60;
  constexpr int retry_seconds = 20;
  constexpr int retries = 3;
  constexpr unsigned unconfirmed_ms = 1'000 * (idle_seconds + retries * retry_seconds);
  const auto set = [&socket](int level, int option, const auto& value) {
    ::setsockopt(socket.native_handle(), level, option, &value, sizeof value); // else it is as before
  };
  set(SOL_SOCKET, SO_KEEPALIVE, on);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, retry_seconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, retries);
  // The same where something is on its way, behind which the system does not ask.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, unconfirmed_ms);
}

Failure cannot_listen(const Endpoint& endpoint, const boost::system::error_code& error) {
  return fail(Errc::unavailable, fmt::format("cannot listen at {}: {}", to_string(endpoint), error.message()));
}

/// Whether a name stands for an address, among others, that this machine does not have.
bool is_none_of_ours(const boost::system::error_code& error) {
  return error == boost::system::errc::address_not_available
         || error == boost::system::errc::address_family_not_supported;
}

} // namespace

class HttpServer::Parts {
public:
  Parts(std::shared_ptr<FrontState> state, const std::shared_ptr<asio::ssl::context>& tls) : state_(std::move(state)) {
    const auto threads = std::max<std::size_t>(state_->options.io_threads, 1);
    for (std::size_t i = 0; i < threads; ++i)
      loops_.push_back(std::make_shared<Loop>(state_, strangers_, tls));
  }

  Result<void> listen(const Endpoint& endpoint) {
    boost::system::error_code error;
    Tcp::resolver resolver{loops_.front()->context()};
    const auto found = resolver.resolve(endpoint.host, std::to_string(endpoint.port), Tcp::resolver::passive, error);
    if (error)
      return cannot_listen(endpoint, error);
    endpoint_ = endpoint;
    std::set<Tcp::endpoint> addresses; // some come twice
    for (const auto& entry : found)
      addresses.insert(entry.endpoint());
    for (const auto& address : addresses) {
      // The port that was chosen for the first is that of all.
      open_door({address.address(), endpoint_.port}, addresses.size() > 1, error);
      if (!error)
        endpoint_.port = doors_.back().acceptor.local_endpoint().port();
      else if (!is_none_of_ours(error))
        return cannot_listen(endpoint, error);
    }
    if (doors_.empty())
      return cannot_listen(endpoint, error);
    for (auto& door : doors_)
      accept(door);
    // The first one last, which accepts: if another gets no thread, nothing has been accepted for it.
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop)
      GPUACTORS_TRY((*loop)->start());
    return {};
  }

  Result<void> renew_tls() {
    GPUACTORS_LET(tls, open_tls(state_->options.tls));
    for (const auto& loop : loops_)
      loop->post([loop, tls] { loop->set_tls(tls); });
    return {};
  }

  /// @param from the loop that takes its turn first.
  void turn(std::function<void()> done, std::size_t from = 0) {
    if (from == loops_.size())
      return done();
    loops_[from]->post([this, from, done = std::move(done)]() mutable { turn(std::move(done), from + 1); });
  }

  void stop(gpuactors::Duration grace) {
    if (std::exchange(stopped_, true))
      return;
    state_->stopping = true;
    on_each([this](Loop& loop) {
      if (&loop == loops_.front().get()) {
        boost::system::error_code ignored;
        for (auto& door : doors_) {
          door.acceptor.close(ignored);
          door.pause.cancel();
        }
      }
      loop.drain();
    });
    if (!wait_until_idle(grace)) {
      on_each([](Loop& loop) { loop.cancel(); });
      wait_until_idle(std::min(grace, give_up_time));
    }
    for (const auto& loop : loops_)
      loop->stop();
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

private:
  /// One of the addresses at which it listens.
  struct Door {
    explicit Door(asio::io_context& context) : acceptor(context), pause(context) {
      // nop
    }

    Tcp::acceptor acceptor;
    asio::steady_timer pause;
  };

  /// @param alone No address of the other family is meant with it.
  void open_door(const Tcp::endpoint& address, bool alone, boost::system::error_code& error) {
    auto& acceptor = doors_.emplace_back(loops_.front()->context()).acceptor;
    acceptor.open(address.protocol(), error);
    if (!error)
      acceptor.set_option(Tcp::acceptor::reuse_address{true}, error);
    if (!error && alone && address.address().is_v6())
      acceptor.set_option(asio::ip::v6_only{true}, error);
    if (!error)
      acceptor.bind(address, error);
    if (!error)
      acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      doors_.pop_back();
  }

  void accept(Door& door) {
    auto& loop = *loops_[next_++ % loops_.size()];
    door.acceptor.async_accept(loop.context(),
                               [this, &loop, &door](const boost::system::error_code& error, Socket socket) {
                                 if (error == asio::error::operation_aborted || !door.acceptor.is_open())
                                   return;
                                 if (!error) {
                                   admit(loop, std::move(socket));
                                   return accept(door);
                                 }
                                 // No file descriptor is left, or the connection is gone already.
                                 door.pause.expires_after(accept_pause);
                                 door.pause.async_wait([this, &door](const boost::system::error_code& aborted) {
                                   if (!aborted)
                                     accept(door);
                                 });
                               });
  }

  void admit(Loop& loop, Socket socket) {
    boost::system::error_code ignored;
    const auto others = state_->http_connections.load();
    const auto most = state_->options.limits.connections;
    if (others >= most)
      state_->http_refused.fetch_add(1, std::memory_order_relaxed);
    if (others >= most + turned_away_at_once)
      return;
    state_->http_connections.fetch_add(1, std::memory_order_relaxed);
    socket.set_option(Tcp::no_delay{true}, ignored);
    watch_peer(socket);
    // Whoever connects and says nothing shall not keep out those who have something to say.
    const auto has_room = others < most || strangers_->evict_oldest();
    auto connection = std::make_shared<std::weak_ptr<Connection>>();
    std::optional<Strangers::Key> stranger;
    if (has_room)
      stranger = strangers_->add([&loop, connection] {
        loop.post([connection] {
          if (const auto found = connection->lock())
            found->evict();
        });
      });
    asio::post(loop.context(), [&loop, connection, stranger, kept = std::move(socket)]() mutable {
      *connection = loop.add(std::move(kept), stranger);
    });
  }

  /// Has each loop do something on its thread, and waits for it.
  template <class Action>
  void on_each(Action action) {
    for (const auto& loop : loops_) {
      std::promise<void> done;
      asio::post(loop->context(), [&] {
        action(*loop);
        done.set_value();
      });
      done.get_future().wait();
    }
  }

  bool wait_until_idle(gpuactors::Duration time) {
    const auto deadline = gpuactors::deadline_after(gpuactors::Clock::now(), time);
    while (state_->http_connections.load() > 0) {
      if (gpuactors::Clock::now() >= deadline)
        return false;
      std::this_thread::sleep_for(stop_poll);
    }
    return true;
  }

  std::shared_ptr<FrontState> state_;
  std::shared_ptr<Strangers> strangers_ = std::make_shared<Strangers>();
  std::vector<std::shared_ptr<Loop>> loops_;
  // On the thread of the first loop.
  std::list<Door> doors_;
  std::size_t next_ = 0;
  Endpoint endpoint_;
  bool stopped_ = false;
};

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  // nop
}

HttpServer::~HttpServer() {
  stop({});
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(std::shared_ptr<FrontState> state, const Endpoint& endpoint) {
  GPUACTORS_LET(tls, open_tls(state->options.tls));
  auto parts = std::make_unique<Parts>(std::move(state), tls);
  GPUACTORS_TRY(parts->listen(endpoint));
  return std::unique_ptr<HttpServer>{new HttpServer{std::move(parts)}};
}

const Endpoint& HttpServer::endpoint() const noexcept {
  return parts_->endpoint();
}

Result<void> HttpServer::renew_tls() {
  return parts_->renew_tls();
}

void HttpServer::turn(std::function<void()> done) {
  parts_->turn(std::move(done));
}

void HttpServer::stop(gpuactors::Duration grace) {
  parts_->stop(grace);
}

} // namespace serve

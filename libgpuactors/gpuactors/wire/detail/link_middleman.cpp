#include <gpuactors/wire/detail/link_middleman.hpp>

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/interfaces.hpp>
#include <caf/io/network/stream.hpp>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

namespace gpuactors::detail {

namespace {

using caf::io::network::default_multiplexer;
using caf::io::network::native_socket;
using caf::io::network::operation;
using caf::io::network::rw_state;

/// What a socket had beyond what was asked for. CAF reads a message in two pieces, and asks once more to see that there
/// is no other: with one system call for as many messages as there are, a call costs less and a thousand cost far less.
class ReadAhead {
public:
  [[nodiscard]] bool empty() const noexcept {
    return begin_ == end_;
  }

  /// As `recv`; fails with EAGAIN, without asking, right after the socket had less than there was room for.
  ssize_t read(native_socket socket, void* data, std::size_t size) {
    if (empty()) {
      if (std::exchange(drained_, false)) {
        errno = EAGAIN;
        return -1;
      }
      if (size >= capacity)
        return ::recv(socket, data, size, MSG_DONTWAIT);
      if (bytes_ == nullptr)
        bytes_ = std::make_unique<std::array<char, capacity>>();
      const auto count = ::recv(socket, bytes_->data(), capacity, MSG_DONTWAIT);
      if (count <= 0)
        return count;
      begin_ = 0;
      end_ = static_cast<std::size_t>(count);
      drained_ = end_ < capacity;
    }
    const auto moved = std::min(size, end_ - begin_);
    std::memcpy(data, bytes_->data() + begin_, moved);
    begin_ += moved;
    return static_cast<ssize_t>(moved);
  }

private:
  static constexpr std::size_t capacity = 16U << 10;

  std::unique_ptr<std::array<char, capacity>> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool drained_ = false;
};

/// How a stream of CAF reads and writes: through the session, which never blocks.
class LinkPolicy {
public:
  LinkPolicy(transport::TlsSession tls, std::shared_ptr<LinkGate> gate) : tls_(std::move(tls)), gate_(std::move(gate)) {
    // nop
  }

  rw_state read_some(std::size_t& done, native_socket socket, void* data, std::size_t size) {
    done = 0;
    if (tls_ == nullptr) {
      const auto state = moved(ahead_.read(socket, data, size), done, true);
      if (done > 0 && std::exchange(first_, false) && *static_cast<const unsigned char*>(data) == tls_handshake) {
        gate_->refuse_tls(socket);
        return rw_state::failure;
      }
      return state;
    }
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read_ex(tls_.get(), data, size, &done);
    ++reads_;
    return result == 1 ? rw_state::success : judge(result);
  }

  /// The event loop turns to this connection.
  void begin_reading() noexcept {
    reads_ = 0;
  }

  rw_state write_some(std::size_t& done, native_socket socket, const void* data, std::size_t size) {
    done = 0;
    if (size == 0)
      return rw_state::indeterminate;
    const auto state = write(done, socket, data, size);
    failed_ = state == rw_state::failure;
    return state;
  }

  /// Whether the last write failed.
  [[nodiscard]] bool has_failed() const noexcept {
    return failed_;
  }

  /// Whether there are bytes here that the socket will not announce any more.
  [[nodiscard]] bool has_pending() const {
    return tls_ != nullptr ? SSL_has_pending(tls_.get()) == 1 : !ahead_.empty();
  }

  /// Whether it stopped reading although there is more.
  [[nodiscard]] bool is_exhausted() const {
    return reads_ >= most_reads && has_pending();
  }

  /// Whether to go on reading now. A session takes in more while it is read from: one fast peer would keep all others,
  /// and the heartbeats, waiting.
  [[nodiscard]] bool must_read_more(native_socket, std::size_t) const {
    return reads_ < most_reads && has_pending();
  }

private:
  static constexpr std::size_t write_burst = 1U << 20;
  static constexpr int most_reads = 256;
  // The first byte of a TLS client; messages of CAF's protocol begin with smaller ones.
  static constexpr unsigned char tls_handshake = 0x16;

  rw_state write(std::size_t& done, native_socket socket, const void* data, std::size_t size) {
    if (tls_ == nullptr)
      return moved(::send(socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT), done, false);
    // A record is 16 KiB: many at once, so that a large message does not go through the event loop for each.
    const auto* bytes = static_cast<const char*>(data);
    while (done < size && done < write_burst) {
      std::size_t written = 0;
      ERR_clear_error();
      errno = 0;
      const int result = SSL_write_ex(tls_.get(), bytes + done, std::min(size - done, write_burst - done), &written);
      if (result != 1)
        return done > 0 ? rw_state::success : judge(result);
      done += written;
    }
    return rw_state::success;
  }

  static rw_state moved(ssize_t count, std::size_t& done, bool zero_is_end) {
    if (count > 0) {
      done = static_cast<std::size_t>(count);
      return rw_state::success;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      return rw_state::success;
    return count == 0 && !zero_is_end ? rw_state::success : rw_state::failure;
  }

  rw_state judge(int result) {
    switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return rw_state::success;
    default:
      ERR_clear_error();
      return rw_state::failure;
    }
  }

  transport::TlsSession tls_;
  std::shared_ptr<LinkGate> gate_;
  ReadAhead ahead_;
  bool failed_ = false;
  int reads_ = 0;
  bool first_ = true;
};

/// A stream of CAF that writes without asking the event loop first whether the socket takes it, as it nearly always
/// does.
class LinkStream final : public caf::io::network::stream {
public:
  /// @param read_again has `handle_event` called for reading once more, after others had their turn.
  LinkStream(default_multiplexer& multiplexer, native_socket socket, LinkPolicy policy,
             std::function<void()> read_again)
    : stream(multiplexer, socket), policy_(std::move(policy)), read_again_(std::move(read_again)) {
    // nop
  }

  void handle_event(operation what) override {
    policy_.begin_reading();
    handle_event_impl(what, policy_);
    if (what == operation::read && policy_.is_exhausted())
      read_again_();
  }

  /// Writes what is in the buffer; what the socket does not take now, it writes when the event loop says so. Only from
  /// functions that were posted to the event loop, which has no changes of its own under way then.
  void write_now(const manager_ptr& manager) {
    if (state_.writing)
      return;
    flush(manager);
    if (!state_.writing)
      return;
    handle_event(operation::write);
    // The event loop has not seen it come, so it does not see it go.
    if (!state_.writing || policy_.has_failed())
      removed_from_loop(operation::write);
  }

private:
  LinkPolicy policy_;
  std::function<void()> read_again_;
};

/// One connection, as CAF's broker sees it.
class LinkScribe final : public caf::io::scribe {
public:
  LinkScribe(default_multiplexer& multiplexer, LinkSession session, std::shared_ptr<LinkGate> gate)
    : scribe(caf::io::network::conn_hdl_from_socket(session.socket.get())), gate_(std::move(gate)),
      socket_(std::move(session.socket)),
      stream_(multiplexer, socket_.get(), LinkPolicy{std::move(session.tls), gate_}, [this] { read_soon(); }) {
    // The stream closes the socket when the event loop lets go of it.
    static_cast<void>(socket_.release());
  }

  ~LinkScribe() override {
    static_cast<void>(gate_->announced(announced_, 0));
    gate_->left();
  }

  void configure_read(caf::io::receive_policy::config config) override {
    // The size that a peer announces is what CAF would allocate for it.
    if (config.second > limits::link_message_bytes || !gate_->announced(announced_, config.second)) {
      ::shutdown(stream_.fd(), SHUT_RDWR);
      static_cast<void>(gate_->announced(announced_, 0));
      config.second = 1;
    }
    announced_ = config.second;
    stream_.configure_read(config);
    if (!launched_)
      launch();
  }

  void ack_writes(bool enable) override {
    stream_.ack_writes(enable);
  }

  caf_version::LinkBuffer& wr_buf() override {
    return stream_.wr_buf();
  }

  caf_version::LinkBuffer& rd_buf() override {
    return stream_.rd_buf();
  }

  void graceful_shutdown() override {
    stream_.flush(this);
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }

  /// Writes all at once when the messages that are at hand have been put into the buffer.
  void flush() override {
    if (std::exchange(flushing_, true))
      return;
    stream_.backend().post([self = caf::intrusive_ptr<LinkScribe>{this}] {
      self->flushing_ = false;
      if (self->detached())
        return;
      self->stream_.write_now(self.get());
    });
  }

  std::string addr() const override {
    const auto address = caf::io::network::remote_addr_of_fd(stream_.fd());
    return address ? *address : std::string{};
  }

  std::uint16_t port() const override {
    const auto port = caf::io::network::remote_port_of_fd(stream_.fd());
    return port ? *port : std::uint16_t{0};
  }

  void add_to_loop() override {
    stream_.activate(this);
  }

  void remove_from_loop() override {
    stream_.passivate();
  }

private:
  void launch() {
    launched_ = true;
    stream_.start(this);
    // What came with the handshake lies in the session: the socket will not announce it.
    read_soon();
  }

  void read_soon() {
    stream_.backend().post([self = caf::intrusive_ptr<LinkScribe>{this}] {
      if (!self->detached())
        self->stream_.handle_event(operation::read);
    });
  }

  std::shared_ptr<LinkGate> gate_;
  Descriptor socket_;
  LinkStream stream_;
  bool launched_ = false;
  bool flushing_ = false;
  // Bytes of the message that is being read.
  std::size_t announced_ = 0;
};

/// A port: whoever connects meets the gate first.
class LinkDoorman final : public caf::io::network::doorman_impl {
public:
  LinkDoorman(default_multiplexer& multiplexer, native_socket socket, std::shared_ptr<LinkGate> gate)
    : doorman_impl(multiplexer, socket), gate_(std::move(gate)) {
    // nop
  }

  bool new_connection() override {
    Descriptor socket{acceptor_.accepted_socket()};
    if (detached())
      return false;
    caf::io::network::nonblocking(socket.get(), true);
    gate_->greet(std::move(socket), [self = caf::intrusive_ptr<LinkDoorman>{this}](LinkSession session) {
      auto shared = std::make_shared<LinkSession>(std::move(session));
      self->acceptor_.backend().post([self, shared] { self->admit(std::move(*shared)); });
    });
    return true;
  }

private:
  void admit(LinkSession session) {
    if (detached() || !gate_->entered())
      return;
    auto& multiplexer = acceptor_.backend();
    auto scribe = caf::make_counted<LinkScribe>(multiplexer, std::move(session), gate_);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    doorman::new_connection(&multiplexer, handle);
  }

  std::shared_ptr<LinkGate> gate_;
};

class LinkMiddleman final : public caf::io::middleman_actor_impl {
public:
  LinkMiddleman(caf::actor_config& config, caf::actor broker, std::shared_ptr<LinkGate> gate)
    : middleman_actor_impl(config, std::move(broker)), gate_(std::move(gate)) {
    // nop
  }

  const char* name() const override {
    return "gpuactors.links";
  }

protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    // Made by whoever asked for it.
    auto session = gate_->take(Endpoint{host, port});
    if (!session || !gate_->entered())
      return caf::make_error(caf::sec::cannot_connect_to_node);
    caf::io::network::nonblocking(session->socket.get(), true);
    return caf::io::scribe_ptr{caf::make_counted<LinkScribe>(multiplexer(), std::move(*session), gate_)};
  }

  caf::expected<caf::io::doorman_ptr> open(std::uint16_t port, const char* address, bool reuse) override {
    auto socket = caf::io::network::new_tcp_acceptor_impl(port, address, reuse);
    if (!socket)
      return std::move(socket.error());
    return caf::io::doorman_ptr{caf::make_counted<LinkDoorman>(multiplexer(), *socket, gate_)};
  }

private:
  default_multiplexer& multiplexer() {
    return static_cast<default_multiplexer&>(system().middleman().backend());
  }

  std::shared_ptr<LinkGate> gate_;
};

} // namespace

caf::strong_actor_ptr spawn_link_middleman(caf::actor_system& system, std::shared_ptr<LinkGate> gate) {
  return caf::actor_cast<caf::strong_actor_ptr>(system.spawn<LinkMiddleman, caf::detached + caf::hidden>(
      caf_version::protocol_broker<caf::io::basp_broker>(system), std::move(gate)));
}

} // namespace gpuactors::detail

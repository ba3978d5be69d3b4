#include <gpuactors/wire/detail/client_rules.hpp>
#include <gpuactors/wire/detail/link_middleman.hpp>
#include <gpuactors/wire/detail/link_stream.hpp>

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/interfaces.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

namespace gpuactors::detail {

namespace {

using caf::io::network::default_multiplexer;
using caf::io::network::native_socket;
using caf::io::network::operation;
using transport::Pipe;

class LinkScribe;

/// The connections of this process, by what CAF calls them.
using LinkTwins = std::unordered_map<caf::io::connection_handle, LinkScribe*>;

/// Who has begun a connection.
enum class Begun { here, there };

/// The parts of this process that each connection uses: the gate that admits it, and the lanes by which senders find
/// it.
struct LinkEnds {
  std::shared_ptr<LinkGate> gate;
  std::shared_ptr<Lanes> lanes;
  /// See `spawn_link_middleman`.
  Duration patience;
  /// Used by the thread of the event loop alone.
  std::shared_ptr<LinkTwins> twins = std::make_shared<LinkTwins>();
};

/// One connection, as CAF's broker uses it.
class LinkScribe final : public caf::io::scribe {
public:
  LinkScribe(default_multiplexer& multiplexer, LinkSession session, LinkEnds ends, Begun begun)
    : scribe(caf::io::network::conn_hdl_from_socket(session.socket.get())), gate_(std::move(ends.gate)),
      lanes_(std::move(ends.lanes)), patience_(ends.patience), twins_(std::move(ends.twins)), begun_(begun),
      speaks_(begun == Begun::there), other_(std::move(session.peer)), owner_(std::make_shared<LinkScribe*>(this)),
      socket_(std::move(session.socket)),
      pipe_(std::make_shared<Pipe>(socket_.get(), std::move(session.tls), call_loop(multiplexer), limits::link_collect,
                                   patience_, gate_->waiting_for(other_.caller()))),
      stream_(multiplexer, socket_.get(), *pipe_, ReadPolicy{*pipe_}, [this] { read_soon(); }) {
    if (begun_ == Begun::here)
      gate_->begin_meeting(socket_.get());
    // The stream closes the socket when the event loop releases it.
    static_cast<void>(socket_.release());
  }

  ~LinkScribe() override {
    *owner_ = nullptr;
    gate_->end_meeting(stream_.fd());
    pipe_->close();
    leave_lane();
    // One that the event loop has never had may end on another thread.
    if (launched_)
      if (const auto entry = twins_->find(hdl()); entry != twins_->end() && entry->second == this)
        twins_->erase(entry);
    static_cast<void>(gate_->announced(announced_, 0));
    gate_->left(other_.caller());
  }

  void configure_read(caf::io::receive_policy::config config) override {
    // CAF would allocate a buffer of the size that the peer announces.
    if (config.second > limits::link_message_bytes || !gate_->announced(announced_, config.second)) {
      ::shutdown(stream_.fd(), SHUT_RDWR);
      static_cast<void>(gate_->announced(announced_, 0));
      config.second = 1;
    }
    announced_ = config.second;
    if (!peer_ && !twin_of_)
      enter_lane();
    stream_.configure_read(config);
    if (!launched_)
      launch();
  }

  bool consume(caf_version::RunnerBase* runner, const void* data, std::size_t size) override {
    const bool is_payload = std::exchange(header_.payload, 0) > 0;
    if (detached())
      return false;
    // Once the connection was shut down, there are only the bytes that had arrived before, and then its end.
    if (refused_ || (!is_payload && size != link_header_size))
      return true;
    if (!is_payload)
      header_ = read_link_header(data);
    if (is_payload ? !examine_payload(data, size) : !examine_header())
      return true;
    // CAF greets its own actors over there, which link, and keep, what a client names. Not here.
    if (!is_payload && header_.is_to_name && !other_.caller().administers)
      readdress_to_nobody(rd_buf());
    const auto to_caf = [&] { return scribe::consume(runner, data, size); };
    const bool goes_on = is_payload && header_.kind == LinkKind::handshake ? meet(data, size, to_caf) : hear(to_caf);
    // Behind a large message come heartbeats at least; several large ones, one after the other, share the memory.
    if (!is_payload && header_.payload <= kept_link_buffer)
      release_large(rd_buf());
    return goes_on;
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
    // CAF has already notified everybody who waits for an answer from the other side.
    leave_lane();
    pipe_->retire();
    if (!speaks_)
      stream_.wr_buf().clear();
    // The event loop, and with it this process, goes on until the last bytes have gone: one that stands still, and
    // takes none, must not keep it.
    const auto patience = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count());
    ::setsockopt(stream_.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    stream_.finish(this);
    detach(&stream_.backend(), false);
  }

  /// Defers the write until all messages at hand are in the buffer, so that they leave together.
  void flush() override {
    if (std::exchange(flushing_, true))
      return;
    stream_.backend().post([self = caf::intrusive_ptr<LinkScribe>{this}] {
      self->flushing_ = false;
      self->write();
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

  /// Ends a connection that was accepted before then, and whose other side has not said yet who it is.
  void end_if_silent(TimePoint before) {
    if (begun_ == Begun::there && !peer_ && !twin_of_ && !refused_ && made_ < before)
      refuse("it has not said which process it is");
  }

protected:
  void detach_from(caf::io::abstract_broker* broker) override {
    leave_lane();
    scribe::detach_from(broker);
  }

private:
  /// Returns the function with which sending threads call the event loop. Those threads may outlive the connection; the
  /// call has no effect then.
  Pipe::CallLoop call_loop(default_multiplexer& multiplexer) {
    return [&multiplexer, owner = owner_] {
      multiplexer.post([owner] {
        // The connection is destroyed only on this thread, so the pointer stays valid during the call.
        if (const caf::intrusive_ptr<LinkScribe> scribe{*owner})
          scribe->write();
      });
    };
  }

  void write() {
    // CAF names itself at once on a connection that it has begun, while it may yet find that there is one already.
    if (!detached() && speaks_)
      stream_.write(this);
  }

  /// Look at a message before CAF does. @returns false if CAF must not see it: the connection ends then.
  bool examine_header() {
    if (!other_.caller().administers)
      if (const auto why = why_refused(header_, static_cast<bool>(peer_)); !why.empty())
        return refuse(why);
    // Heartbeats are the regular occasion, but nobody has to send them.
    constexpr unsigned often = 1024;
    if ((header_.kind == LinkKind::heartbeat || ++messages_ % often == 0) && other_.is_revoked())
      return refuse("its certificate was revoked");
    return true;
  }

  bool examine_payload(const void* data, std::size_t size) {
    if (other_.caller().administers)
      return true;
    auto& system = parent()->system();
    if (header_.kind == LinkKind::message)
      return header_.is_to_name || is_for_us(system, peer_, data, size)
             || refuse("a client sends messages of gpuactors alone, and no actors but its own");
    if (!peer_)
      return true;
    // CAF itself repeats the handshake.
    const auto [from, to] = caf_version::ends_of(system, header_.kind == LinkKind::news, data, size);
    if (from == peer_ && (header_.kind == LinkKind::handshake || to == system.node()))
      return true;
    return refuse("a client may speak of its own actors only, and under one name");
  }

  // -- two connections between two processes ------------------------------------------------------
  //
  // Two processes that connect to each other at one moment have two connections. CAF then sends over the one that it
  // has begun itself, and drops the senders of what comes over the other: answers to it go nowhere, on both sides. So
  // both take the connection that the process with the smaller id has begun, and the other one is its twin: what is on
  // its way there is still heard, and CAF closes it later, as there is no more heartbeat.

  /// Has CAF take the other side's handshake.
  template <class ToCaf>
  bool meet(const void* data, std::size_t size, ToCaf to_caf) {
    auto& system = parent()->system();
    const auto peer = caf_version::ends_of(system, false, data, size).first;
    if (peer && !settle_name(peer))
      return true;
    const auto way = peer ? way_to(peer) : std::nullopt;
    // Where this side has begun it, the other one has not heard of it yet: CAF closes it. Nobody dials clients, and
    // they could name any process.
    const bool is_second = begun_ == Begun::there && other_.caller().administers && way && *way != hdl();
    const auto entry = is_second ? twins_->find(*way) : twins_->end();
    const bool wins = entry != twins_->end() && entry->second->begun_ == Begun::here && peer < system.node();
    if (wins) {
      entry->second->become_twin(peer);
      set_way(peer, std::nullopt);
    } else if (is_second) {
      become_twin(peer);
    }
    const bool goes_on = to_caf();
    if (!detached())
      speaks_ = true;
    write();
    return goes_on;
  }

  /// Whether the process may be who it says. Who serves was there first, whoever took its name before.
  bool settle_name(const caf::node_id& peer) {
    if (!lanes_->is_anothers(peer, other_.caller()))
      return true;
    if (!other_.caller().administers)
      return refuse("it says that it is another one's process");
    const auto way = way_to(peer);
    if (const auto other = way ? twins_->find(*way) : twins_->end(); other != twins_->end()) {
      other->second->refuse("it says that it is another one's process");
      other->second->leave_lane();
    }
    set_way(peer, std::nullopt);
    return true;
  }

  /// Has CAF take a message.
  template <class ToCaf>
  bool hear(ToCaf to_caf) {
    const auto way = twin_of_ ? way_to(twin_of_) : std::nullopt;
    if (!way)
      return to_caf();
    // CAF may close this connection, if what comes is nothing that it knows, and forgets the way to the process then.
    const auto kept = parent_;
    auto* const broker = parent();
    const auto peer = twin_of_;
    detail::set_way(broker, peer, hdl());
    const bool goes_on = to_caf();
    if (!broker->getf(caf::abstract_actor::is_terminated_flag))
      detail::set_way(broker, peer, way);
    // CAF has told everybody that the process is lost: so it is, and notices it.
    if (const auto first = twins_->find(*way); detached() && first != twins_->end())
      ::shutdown(first->second->stream_.fd(), SHUT_RDWR);
    return goes_on;
  }

  void become_twin(const caf::node_id& peer) {
    leave_lane();
    twin_of_ = peer;
  }

  std::optional<caf::io::connection_handle> way_to(const caf::node_id& peer) {
    return detail::way_to(parent(), peer);
  }

  void set_way(const caf::node_id& peer, std::optional<caf::io::connection_handle> connection) {
    detail::set_way(parent(), peer, connection);
  }

  bool refuse(std::string_view why) {
    gate_->refuse_peer(stream_.fd(), other_.caller().name, why);
    ::shutdown(stream_.fd(), SHUT_RDWR);
    refused_ = true;
    return false;
  }

  /// Enters the pipe into the lanes once the other side has identified itself, but only if CAF sends over this
  /// connection too: the other side closes connections that it does not need.
  void enter_lane() {
    const auto peer = detail::peer_of(parent(), hdl());
    if (!peer)
      return;
    end_spawn_server(parent(), peer);
    // Whoever takes this process's own name would be taken for it.
    if (peer == parent()->system().node()) {
      ::shutdown(stream_.fd(), SHUT_RDWR);
      return;
    }
    // CAF's own handshake may still be in the buffer. A request that arrived before it would have no sender for CAF on
    // the other side.
    speaks_ = true;
    write();
    if (detached())
      return;
    peer_ = peer;
    gate_->end_meeting(stream_.fd());
    lanes_->add(peer_, pipe_, other_.caller());
  }

  void leave_lane() {
    if (peer_)
      lanes_->remove(peer_, pipe_.get());
    peer_ = caf::node_id{};
  }

  void launch() {
    launched_ = true;
    (*twins_)[hdl()] = this;
    stream_.start(this);
    // Bytes that arrived with the TLS handshake are already in the session: the socket will not report them as
    // readable.
    read_soon();
  }

  void read_soon() {
    stream_.backend().post([self = caf::intrusive_ptr<LinkScribe>{this}] {
      if (!self->detached())
        self->stream_.handle_event(operation::read);
    });
  }

  std::shared_ptr<LinkGate> gate_;
  std::shared_ptr<Lanes> lanes_;
  const Duration patience_;
  std::shared_ptr<LinkTwins> twins_;
  const Begun begun_;
  // CAF's bytes are sent: on a connection that this side has begun, once it is clear that CAF keeps it.
  bool speaks_;
  // The process at the other end, if there is another connection to it that is used.
  caf::node_id twin_of_;
  // Who is at the other end: which process, and whose.
  caf::node_id peer_;
  transport::TlsPeer other_;
  std::shared_ptr<LinkScribe*> owner_;
  Descriptor socket_;
  std::shared_ptr<Pipe> pipe_;
  LinkStream stream_;
  const TimePoint made_ = Clock::now();
  bool launched_ = false;
  bool flushing_ = false;
  // Announced size in bytes of the message that is being read.
  std::size_t announced_ = 0;
  // The header that was read last; its payload is 0 once that was read too.
  LinkHeader header_;
  unsigned messages_ = 0;
  bool refused_ = false;
};

/// Descriptors kept free for other uses when connections have taken all others.
constexpr rlim_t spare_descriptors = 16;

/// A listening port whose new connections pass the gate first.
class LinkDoorman final : public caf::io::network::doorman_impl {
public:
  LinkDoorman(default_multiplexer& multiplexer, native_socket socket, LinkEnds ends)
    : doorman_impl(multiplexer, socket), ends_(std::move(ends)) {
    // nop
  }

  bool new_connection() override {
    Descriptor socket{acceptor_.accepted_socket()};
    if (detached())
      return false;
    // The kernel assigns the lowest free number first. With no descriptor left at all, CAF's acceptor would retry
    // endlessly.
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0
        && static_cast<rlim_t>(socket.get()) + spare_descriptors > files.rlim_cur) {
      ends_.gate->refuse_crowd(socket.get(), files.rlim_cur);
      return true;
    }
    caf::io::network::nonblocking(socket.get(), true);
    ends_.gate->greet(std::move(socket), [self = caf::intrusive_ptr<LinkDoorman>{this}](LinkSession session) {
      auto shared = std::make_shared<LinkSession>(std::move(session));
      self->acceptor_.backend().post([self, shared] { self->admit(std::move(*shared)); });
    });
    return true;
  }

private:
  void admit(LinkSession session) {
    end_silent();
    if (detached() || !ends_.gate->entered(session))
      return;
    auto& multiplexer = acceptor_.backend();
    auto scribe = caf::make_counted<LinkScribe>(multiplexer, std::move(session), ends_, Begun::there);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    doorman::new_connection(&multiplexer, handle);
  }

  /// Ends connections whose peers do not say who they are: CAF would wait for that for ever. It is enough to look when
  /// somebody else comes.
  void end_silent() {
    constexpr std::chrono::seconds pause{1};
    const auto now = Clock::now();
    if (now < looked_at_ + pause)
      return;
    looked_at_ = now;
    for (const auto& [handle, scribe] : *ends_.twins)
      scribe->end_if_silent(now - ends_.patience);
  }

  LinkEnds ends_;
  TimePoint looked_at_ = Clock::now();
};

class LinkMiddleman final : public caf::io::middleman_actor_impl {
public:
  LinkMiddleman(caf::actor_config& config, caf::actor broker, LinkEnds ends)
    : middleman_actor_impl(config, std::move(broker)), ends_(std::move(ends)) {
    // nop
  }

  const char* name() const override {
    return "gpuactors.links";
  }

protected:
  caf::expected<caf::io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    // `Links::dial` has made the connection and left it at the gate.
    auto session = ends_.gate->take(Endpoint{host, port});
    if (!session || !ends_.gate->entered(*session))
      return caf::make_error(caf::sec::cannot_connect_to_node);
    caf::io::network::nonblocking(session->socket.get(), true);
    return caf::io::scribe_ptr{caf::make_counted<LinkScribe>(multiplexer(), std::move(*session), ends_, Begun::here)};
  }

  caf::expected<caf::io::doorman_ptr> open(std::uint16_t port, const char* address, bool reuse) override {
    auto socket = caf::io::network::new_tcp_acceptor_impl(port, address, reuse);
    if (!socket)
      return std::move(socket.error());
    return caf::io::doorman_ptr{caf::make_counted<LinkDoorman>(multiplexer(), *socket, ends_)};
  }

private:
  default_multiplexer& multiplexer() {
    return static_cast<default_multiplexer&>(system().middleman().backend());
  }

  LinkEnds ends_;
};

} // namespace

caf::strong_actor_ptr spawn_link_middleman(caf::actor_system& system, std::shared_ptr<LinkGate> gate,
                                           std::shared_ptr<Lanes> lanes, Duration patience) {
  return caf::actor_cast<caf::strong_actor_ptr>(system.spawn<LinkMiddleman, caf::detached + caf::hidden>(
      caf_version::protocol_broker<caf::io::basp_broker>(system),
      LinkEnds{std::move(gate), std::move(lanes), patience}));
}

} // namespace gpuactors::detail

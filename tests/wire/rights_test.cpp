// What certificates permit: control actors get from clients only what is for clients, and know who sends.
#include "certificate_fixture.hpp"
#include "system.hpp"

#include <gpuactors/wire/detail/client_rules.hpp>
#include <gpuactors/wire/detail/link_gate.hpp>
#include <gpuactors/wire/guarded.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/results.hpp>

#include <caf/io/basp/header.hpp>
#include <caf/io/basp/version.hpp>

#include <future>
#include <mutex>
#include <type_traits>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

using Ask = Rpc<In<v1::Hello>, Out<v1::Done>>;
using Order = Rpc<In<v1::DrainNode>, Out<v1::Done>>;
using ServerHandle = caf::typed_actor<Ask, Order>;

/// What a server has heard, and from whom.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> names;

  void add(std::string name) {
    const std::lock_guard lock{mutex};
    names.push_back(std::move(name));
  }

  std::vector<std::string> all() {
    const std::lock_guard lock{mutex};
    return names;
  }
};

/// Clients may send `Hello`, and nothing else.
class Server : public Guarded<ServerHandle::base, FromClients<v1::Hello>> {
public:
  Server(caf::actor_config& config, std::shared_ptr<const Lanes> lanes, std::shared_ptr<Heard> heard)
    : Guarded(config, std::move(lanes)), heard_(std::move(heard)) {
    // nop
  }

  ServerHandle::behavior_type make_behavior() override {
    const auto hear = [this] {
      heard_->add(caller().name);
      return v1::Done{};
    };
    return {[hear](const v1::Hello&) { return hear(); }, [hear](const v1::DrainNode&) { return hear(); }};
  }

private:
  std::shared_ptr<Heard> heard_;
};

/// The answer to a request: the error, or none.
class Answer : public PendingReply {
public:
  void on_reply(MessageContent&) override {
    answer_.set_value(std::nullopt);
  }

  void on_error(Error error) override {
    answer_.set_value(std::move(error));
  }

  std::optional<Error> wait() {
    return answer_.get_future().get();
  }

private:
  std::promise<std::optional<Error>> answer_;
};

LinkOptions with(const CertificateFiles& files, std::shared_ptr<Heard> notices = std::make_shared<Heard>()) {
  LinkOptions options;
  options.certificates = files;
  options.heartbeat = 100ms;
  options.timeout = 10s;
  options.notice = [notices = std::move(notices)](std::string_view line) { notices->add(std::string{line}); };
  return options;
}

/// What each process of a cluster has; several of them in this one.
class Member {
public:
  explicit Member(const LinkOptions& options) : system_(options) {
    auto links = Links::make(system_.get(), port_, options);
    REQUIRE(links);
    links_ = std::move(*links);
  }

  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  ~Member() {
    port_.close();
    links_.reset();
    if (server_ != nullptr)
      caf::anon_send_exit(std::exchange(server_, nullptr), caf::exit_reason::kill);
    system_.get().await_all_actors_done();
  }

  Endpoint serve(const std::shared_ptr<Heard>& heard) {
    server_ = caf::actor_cast<caf::strong_actor_ptr>(system_.get().spawn<Server>(links_->lanes(), heard));
    const auto port = links_->publish(server_, {"127.0.0.1", 0});
    REQUIRE(port);
    return {"127.0.0.1", *port};
  }

  Result<caf::strong_actor_ptr> connect(const Endpoint& to) {
    std::promise<Result<caf::strong_actor_ptr>> connected;
    links_->connect(to, 20s, [&](Result<caf::strong_actor_ptr> handle) { connected.set_value(std::move(handle)); });
    return connected.get_future().get();
  }

  [[nodiscard]] caf::actor_system& system() {
    return system_.get();
  }

  /// Its actor's number.
  [[nodiscard]] caf::actor_id server() const {
    return server_->id();
  }

  template <class Message>
  std::optional<Error> ask(const caf::strong_actor_ptr& to, Message message, Duration wait = 20s) {
    const auto answer = std::make_shared<Answer>();
    port_.ask(answer, to, deadline_after(Clock::now(), wait), std::move(message));
    return answer->wait();
  }

private:
  System system_;
  RequestPort port_{system_.get(), [](MessageContent&) {}};
  std::unique_ptr<Links> links_;
  caf::strong_actor_ptr server_;
};

/// Bytes of CAF's protocol, written by hand.
class Forgery {
public:
  explicit Forgery(caf::actor_system& system) : system_(system) {
    // nop
  }

  template <class... Parts>
  Forgery& add(caf::io::basp::message_type kind, std::uint64_t data, caf::actor_id from, caf::actor_id to,
               const Parts&... parts) {
    return add_with(0, kind, data, from, to, parts...);
  }

  /// The same with flags in the header.
  template <class... Parts>
  Forgery& add_with(std::uint8_t flags, caf::io::basp::message_type kind, std::uint64_t data, caf::actor_id from,
                    caf::actor_id to, const Parts&... parts) {
    caf_version::Bytes payload;
    REQUIRE((caf_version::encode(system_, parts, payload) && ...));
    const caf::io::basp::header header{kind, flags, static_cast<std::uint32_t>(payload.size()), data, from, to};
    REQUIRE(caf_version::encode(system_, header, bytes_));
    bytes_.insert(bytes_.end(), payload.begin(), payload.end());
    return *this;
  }

  /// A message for an actor.
  Forgery& add(caf::actor_id to, const caf::message& content) {
    using caf::io::basp::message_type;
    constexpr caf::actor_id from = 5;
#if GPUACTORS_CAF_017
    return add(message_type::direct_message, 0, from, to, std::vector<caf::strong_actor_ptr>{}, content);
#else
    return add(message_type::direct_message, 0, from, to, content);
#endif
  }

  /// Sends the bytes over a connection with these certificates, which the other side then ends.
  /// @returns whether it does.
  [[nodiscard]] bool is_sent_away(const Endpoint& to, const CertificateFiles& files) const {
    auto gate = detail::LinkGate::make(must(transport::TlsContext::load(files)), [](std::string_view) {});
    REQUIRE(gate);
    auto session = must((*gate)->dial(to, deadline_after(Clock::now(), 20s)));
    std::size_t done = 0;
    REQUIRE(SSL_write_ex(session.tls.get(), bytes_.data(), bytes_.size(), &done) == 1);
    return eventually([&] {
      std::byte ignored[256];
      const int result = SSL_read_ex(session.tls.get(), ignored, sizeof ignored, &done);
      return result != 1 && SSL_get_error(session.tls.get(), result) != SSL_ERROR_WANT_READ;
    });
  }

  [[nodiscard]] const caf_version::Bytes& bytes() const {
    return bytes_;
  }

private:
  caf::actor_system& system_;
  caf_version::Bytes bytes_;
};

struct LinkFixture : CertificateFixture {
  LinkFixture() {
    now = std::chrono::system_clock::now();
    REQUIRE(certs().init(10));
  }

  CertificateFiles issue(const std::string& name, CertificateRole role) {
    auto files = certs().issue({name, {}, {}, role}, folder / name);
    REQUIRE(files);
    return *files;
  }

  CertificateFiles own() {
    auto files = certs().check();
    REQUIRE(files);
    return *files;
  }

  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::shared_ptr<Heard> notices = std::make_shared<Heard>();
};

} // namespace

TEST_CASE_METHOD(LinkFixture, "a client's requests reach a control actor as far as they are for clients, with its name",
                 "[wire][rights]") {
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  Member alice{with(issue("alice", CertificateRole::client))};
  const auto handle = alice.connect(address);
  REQUIRE(handle);
  CHECK_FALSE(alice.ask(*handle, v1::Hello{}));
  const auto refused = alice.ask(*handle, v1::DrainNode{});
  REQUIRE(refused);
  CHECK(refused->code() == Errc::permission_denied);
  CHECK_THAT(refused->message(), Contains("\"alice\" is a client's"));

  Member node{with(issue("gpu1", CertificateRole::node))};
  const auto from_node = node.connect(address);
  REQUIRE(from_node);
  CHECK_FALSE(node.ask(*from_node, v1::DrainNode{}));
  CHECK(heard->all() == std::vector<std::string>{"alice", "gpu1"});
}

TEST_CASE_METHOD(LinkFixture, "a client that does not say who it is loses its connection, a node does not",
                 "[wire][rights]") {
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  {
    Member node{with(issue("gpu1", CertificateRole::node))};
    const auto handle = node.connect(address);
    REQUIRE(handle);
    caf_version::post(*handle, v1::Hello{});
    CHECK(eventually([&] { return heard->all().size() == 1; }));
  }
  Member mallory{with(issue("mallory", CertificateRole::client))};
  const auto handle = mallory.connect(address);
  REQUIRE(handle);
  caf_version::post(*handle, v1::DrainNode{});
  CHECK(eventually([&] { return !notices->all().empty(); }));
  CHECK(mallory.ask(*handle, v1::Hello{}, 1s));
  CHECK(heard->all().size() == 1);
  CHECK_THAT(notices->all().front(), Contains("(mallory)") && Contains("with a sender"));
}

TEST_CASE_METHOD(LinkFixture, "a client that writes its messages by hand gains nothing by it", "[wire][rights]") {
  using caf::io::basp::message_type;
  constexpr std::uint64_t version = caf::io::basp::version;
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  const auto files = issue("mallory", CertificateRole::client);
  const auto to = server.server();
  const auto own_node = server.system().node();
  Member other{with(own())};
  const auto other_node = other.system().node();
  REQUIRE(other.connect(address));
  const auto payload = std::string{"what it holds does not matter"};
  const auto forged = [&] { return Forgery{server.system()}; };
  // Without the words that say which process it is; under the server's own name, or another one's; under two names.
  CHECK(forged().add(message_type::direct_message, 0, 5, to, payload).is_sent_away(address, files));
  for (const auto& node : {own_node, other_node})
    CHECK(forged()
              .add(message_type::client_handshake, version, 0, 0, node)
              .add(message_type::direct_message, 0, 5, to, payload)
              .is_sent_away(address, files));
  System third{LinkOptions{}};
  const auto third_node = third.get().node();
  REQUIRE(third_node);
  const auto greeted = [&] { return forged().add(message_type::client_handshake, version, 0, 0, third_node); };
  CHECK(greeted().add(message_type::client_handshake, version, 0, 0, other_node).is_sent_away(address, files));
  // In the name of a third process, and news of its actors.
  CHECK(greeted().add(message_type::routed_message, 0, 5, to, other_node, own_node).is_sent_away(address, files));
  CHECK(greeted().add(message_type::down_message, 0, 5, 0, other_node, own_node).is_sent_away(address, files));
  CHECK(heard->all().empty());
  CHECK_FALSE(other.ask(*other.connect(address), v1::Hello{}));
}

TEST_CASE_METHOD(LinkFixture, "a client has CAF do nothing: it links, ends and reads nothing for it",
                 "[wire][rights]") {
  using caf::io::basp::message_type;
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  const auto files = issue("mallory", CertificateRole::client);
  System third{LinkOptions{}};
  const auto greeted = [&] {
    return Forgery{server.system()}.add(message_type::client_handshake, caf::io::basp::version, 0, 0,
                                        third.get().node());
  };
  const auto to = server.server();
  const caf::exit_msg exit{caf::actor_addr{}, caf::exit_reason::kill};
  CHECK(greeted().add(to, caf::make_message(exit)).is_sent_away(address, files));
  // Behind one of ours, and without anything.
  CHECK(greeted().add(to, caf::make_message(v1::Hello{}, exit)).is_sent_away(address, files));
  auto nested = caf::make_message(v1::Hello{});
  for (int depth = 0; depth < 1'000; ++depth)
    nested = caf::make_message(v1::Hello{}, nested);
  CHECK(greeted().add(to, nested).is_sent_away(address, files));
  // To CAF's own actors, which have names: short ones arrive nowhere, as CAF itself sends some.
  constexpr std::uint8_t to_a_name = 1;
  CHECK(greeted()
            .add_with(to_a_name, message_type::direct_message, 0, 5, 1, std::string(100'000, 'x'))
            .is_sent_away(address, files));
  CHECK(greeted()
            .add_with(to_a_name, message_type::direct_message, 0, 5, 1, std::string{"whatever"})
            .add(to, caf::make_message(exit))
            .is_sent_away(address, files));
  // Words without an end.
  CHECK(greeted()
            .add(message_type::down_message, 0, 5, 0, third.get().node(), server.system().node(),
                 std::string(100'000, 'x'))
            .is_sent_away(address, files));
  CHECK(heard->all().empty());
  Member node{with(own())};
  CHECK_FALSE(node.ask(*node.connect(address), v1::DrainNode{}));
}

TEST_CASE_METHOD(LinkFixture, "a client has CAF know of no other process than its own", "[wire][rights]") {
  using caf::io::basp::message_type;
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  const auto files = issue("mallory", CertificateRole::client);
  System hers{LinkOptions{}};
  System invented{LinkOptions{}};
  const auto greeted = [&] {
    return Forgery{server.system()}.add(message_type::client_handshake, caf::io::basp::version, 0, 0,
                                        hers.get().node());
  };
  const auto actor_of = [](System& system) {
    return caf::actor_cast<caf::strong_actor_ptr>(
        system.get().spawn([](caf::event_based_actor*) { return caf::behavior{[](int) {}}; }));
  };
  const auto to = server.server();
  const auto third = actor_of(invented);
  const auto own_one = actor_of(hers);
  CHECK(greeted().add(to, caf::make_message(v1::Hello{}, third)).is_sent_away(address, files));
  CHECK(greeted()
            .add(to, caf::make_message(caf::ok_atom_v, std::string{"info"}, third, std::string{"spawner"}))
            .is_sent_away(address, files));
  // Nor are there more than one, or one where none belongs, though they are its own.
  CHECK(greeted().add(to, caf::make_message(v1::Hello{}, own_one, own_one)).is_sent_away(address, files));
  CHECK(greeted().add(to, caf::make_message(v1::GetState{}, own_one)).is_sent_away(address, files));
  caf::anon_send_exit(third, caf::exit_reason::kill);
  caf::anon_send_exit(own_one, caf::exit_reason::kill);
  CHECK(heard->all().empty());
  const auto said = notices->all();
  CHECK(said.size() == 4);
  for (const auto& line : said)
    CHECK_THAT(line, Contains("(mallory)") && Contains("no actors but its own"));
}

TEST_CASE_METHOD(LinkFixture, "nobody takes the name of another one's process", "[wire][rights]") {
  using caf::io::basp::message_type;
  constexpr std::uint8_t instead_of_the_other = 2;
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  const auto files = issue("mallory", CertificateRole::client);
  const auto forged = [&](const caf::node_id& name) {
    return Forgery{server.system()}
        .add(message_type::client_handshake, caf::io::basp::version, 0, 0, name)
        .add_with(instead_of_the_other, message_type::client_handshake, caf::io::basp::version, 0, 0, name)
        .is_sent_away(address, files);
  };
  Member alice{with(issue("alice", CertificateRole::client))};
  const auto hers = alice.connect(address);
  REQUIRE(hers);
  CHECK(forged(alice.system().node()));
  CHECK_FALSE(alice.ask(*hers, v1::Hello{}));
  caf::node_id gone;
  {
    Member node{with(issue("gpu1", CertificateRole::node))};
    const auto handle = node.connect(address);
    REQUIRE(handle);
    CHECK_FALSE(node.ask(*handle, v1::DrainNode{}));
    gone = node.system().node();
    CHECK(forged(gone));
    CHECK_FALSE(node.ask(*handle, v1::DrainNode{}));
  }
  // Nor while the node is away.
  CHECK(forged(gone));
  CHECK_THAT(notices->all().front(), Contains("(mallory)") && Contains("another one's process"));
  CHECK(heard->all() == std::vector<std::string>{"alice", "gpu1", "gpu1"});
}

TEST_CASE_METHOD(LinkFixture, "who serves gets its name back from a client that has taken it before",
                 "[wire][rights]") {
  using caf::io::basp::message_type;
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  Member node{with(issue("gpu1", CertificateRole::node))};
  const auto files = issue("mallory", CertificateRole::client);
  auto gate = detail::LinkGate::make(must(transport::TlsContext::load(files)), [](std::string_view) {});
  auto session = must((*gate)->dial(address, deadline_after(Clock::now(), 20s)));
  const auto words = Forgery{server.system()}
                         .add(message_type::client_handshake, caf::io::basp::version, 0, 0, node.system().node())
                         .add(server.server(), caf::make_message(v1::Hello{}))
                         .bytes();
  std::size_t done = 0;
  REQUIRE(SSL_write_ex(session.tls.get(), words.data(), words.size(), &done) == 1);
  REQUIRE(eventually([&] { return heard->all() == std::vector<std::string>{"mallory"}; }));
  const auto handle = node.connect(address);
  REQUIRE(handle);
  CHECK_FALSE(node.ask(*handle, v1::DrainNode{}));
  CHECK(heard->all() == std::vector<std::string>{"mallory", "gpu1"});
  CHECK_THAT(notices->all().front(), Contains("(mallory)") && Contains("another one's process"));
}

TEST_CASE_METHOD(LinkFixture, "who does not say who it is gives its place up to others", "[wire][rights]") {
  auto options = with(own(), notices);
  options.timeout = 500ms;
  Member server{options};
  const auto address = server.serve(heard);
  auto gate = detail::LinkGate::make(must(transport::TlsContext::load(issue("mallory", CertificateRole::client))),
                                     [](std::string_view) {});
  auto silent = must((*gate)->dial(address, deadline_after(Clock::now(), 20s)));
  Member alice{with(issue("alice", CertificateRole::client))};
  CHECK(eventually([&] {
    const auto hers = alice.connect(address);
    CHECK(hers);
    return !notices->all().empty();
  }));
  CHECK_THAT(notices->all().front(), Contains("(mallory)") && Contains("has not said which process it is"));
}

TEST_CASE("clients leave places to those who serve, and to clients of other names", "[wire][rights]") {
  detail::Crowd crowd{8};
  const Caller alice{"alice", false};
  const Caller bob{"bob", false};
  const Caller node{"gpu1", true};
  CHECK(crowd.enter(alice));
  CHECK(crowd.enter(alice));
  CHECK_FALSE(crowd.enter(alice));
  CHECK(crowd.enter(bob));
  CHECK(crowd.enter(bob));
  CHECK(crowd.enter(Caller{"carol", false}));
  CHECK(crowd.enter(Caller{"carol", false}));
  CHECK_FALSE(crowd.enter(Caller{"dave", false}));
  CHECK(crowd.enter(node));
  CHECK(crowd.enter(node));
  CHECK_FALSE(crowd.enter(node));
  crowd.leave(alice);
  CHECK(crowd.enter(alice));
  crowd.leave(node);
  CHECK_FALSE(crowd.enter(bob));
  CHECK(crowd.enter(node));
}

TEST_CASE_METHOD(LinkFixture, "nobody connects to a process that listens with a client's certificate",
                 "[wire][rights]") {
  Member rogue{with(issue("mallory", CertificateRole::client), notices)};
  const auto address = rogue.serve(heard);
  Member node{with(own())};
  const auto refused = node.connect(address);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK_THAT(refused.error().message(), Contains("is a client's"));
}

TEST_CASE_METHOD(LinkFixture, "a connection ends when its certificate is revoked, and does not come back",
                 "[wire][rights]") {
  Member server{with(own(), notices)};
  const auto address = server.serve(heard);
  Member alice{with(issue("alice", CertificateRole::client))};
  Member bob{with(issue("bob", CertificateRole::client))};
  const auto hers = alice.connect(address);
  const auto his = bob.connect(address);
  REQUIRE(hers);
  REQUIRE(his);
  REQUIRE_FALSE(alice.ask(*hers, v1::Hello{}));
  REQUIRE(certs().revoke("alice"));
  // Heartbeats are enough: nothing else is sent.
  CHECK(eventually([&] { return !notices->all().empty(); }));
  CHECK_THAT(notices->all().front(), Contains("(alice)") && Contains("was revoked"));
  CHECK(alice.ask(*hers, v1::Hello{}, 1s));
  const auto again = alice.connect(address);
  REQUIRE_FALSE(again);
  CHECK_THAT(again.error().message(), Contains("revoked"));
  CHECK_FALSE(bob.ask(*his, v1::Hello{}));
}

TEST_CASE("clients may use a broker, and neither join it, nor follow it, nor end it for another one", "[rights]") {
  const auto permits = []<class Message, class... Permitted>(const Message&, FromClients<Permitted...>) {
    return (std::is_same_v<Message, Permitted> || ...);
  };
  const BrokerFromClients clients;
  CHECK(permits(v1::Hello{}, clients));
  CHECK(permits(v1::SpawnActor{}, clients));
  CHECK_FALSE(permits(v1::RegisterNode{}, clients));
  CHECK_FALSE(permits(v1::FollowState{}, clients));
  CHECK_FALSE(permits(v1::TakenOver{}, clients));
  CHECK_FALSE(permits(v1::NodePrograms{}, clients));
}

TEST_CASE("what a message holds is known from the names of its types, of which none may be missing", "[wire][rights]") {
  System system{LinkOptions{}};
  const auto payload_of = [&](const caf::message& content) {
    caf_version::Bytes bytes;
#if GPUACTORS_CAF_017
    REQUIRE(caf_version::encode(system.get(), std::vector<caf::strong_actor_ptr>{}, bytes));
#endif
    REQUIRE(caf_version::encode(system.get(), content, bytes));
    return bytes;
  };
  const auto is_for_us = [&](const caf_version::Bytes& bytes, std::size_t size) {
    return detail::is_for_us(system.get(), system.get().node(), bytes.data(), size);
  };
  const auto call = payload_of(caf::make_message(std::string{"add"}, Payload{}));
  CHECK(is_for_us(call, call.size()));
  const auto exit = payload_of(caf::make_message(caf::exit_msg{caf::actor_addr{}, caf::exit_reason::kill}));
  CHECK_FALSE(is_for_us(exit, exit.size()));
  // As far as the names go, nothing shorter passes for a whole one.
  const auto hello = payload_of(caf::make_message(v1::Hello{}, caf::strong_actor_ptr{}));
  CHECK(is_for_us(hello, hello.size()));
  const auto names = std::string_view{reinterpret_cast<const char*>(hello.data()), hello.size()};
  const auto end = names.find("strong_actor_ptr");
  for (std::size_t size = 0; end != std::string_view::npos && size < end + 16; ++size)
    CHECK_FALSE(is_for_us(hello, size));
  // Its actor is one of the process at the other end.
  System third{LinkOptions{}};
  const auto own = caf::actor_cast<caf::strong_actor_ptr>(
      system.get().spawn([](caf::event_based_actor*) { return caf::behavior{[](int) {}}; }));
  const auto with_port = payload_of(caf::make_message(v1::Hello{}, own));
  CHECK(is_for_us(with_port, with_port.size()));
  CHECK_FALSE(detail::is_for_us(system.get(), third.get().node(), with_port.data(), with_port.size()));
  const auto info = payload_of(caf::make_message(caf::ok_atom_v, std::string{"info"}, own, std::string{"spawner"}));
  CHECK(is_for_us(info, info.size()));
  CHECK_FALSE(detail::is_for_us(system.get(), third.get().node(), info.data(), info.size()));
  caf::anon_send_exit(own, caf::exit_reason::kill);
  // The answer of CAF's own actors, of which no part may stand alone.
  const caf::strong_actor_ptr nobody;
  const auto atom = caf::ok_atom_v;
  const auto whole = payload_of(caf::make_message(atom, std::string{"info"}, nobody, std::string{"spawner"}));
  CHECK(is_for_us(whole, whole.size()));
  const auto link = payload_of(caf::make_message(atom, nobody));
  CHECK_FALSE(is_for_us(link, link.size()));
  const auto longer = payload_of(caf::make_message(atom, std::string{}, nobody, std::string{}, std::string{}));
  CHECK_FALSE(is_for_us(longer, longer.size()));
}

TEST_CASE("the header of a message tells what must not come from clients", "[wire][rights]") {
  namespace basp = caf::io::basp;
  System system;
  const auto read = [&](basp::message_type kind, std::uint32_t payload, caf::actor_id sender) {
    caf_version::Bytes bytes;
    REQUIRE(caf_version::encode(system.get(), basp::header{kind, 0, payload, 7, sender, 9}, bytes));
    REQUIRE(bytes.size() == detail::link_header_size);
    return detail::read_link_header(bytes.data());
  };
  using detail::LinkKind;
  const auto message = read(basp::message_type::direct_message, 0x01020304, 5);
  CHECK(message.payload == 0x01020304);
  CHECK(message.kind == LinkKind::message);
  CHECK(read(basp::message_type::direct_message, 1, std::uint64_t{1} << 56U).kind == LinkKind::message);
  CHECK(read(basp::message_type::direct_message, 1, 0).kind == LinkKind::anonymous);
  CHECK(read(basp::message_type::routed_message, 1, 5).kind == LinkKind::other);
  CHECK(read(basp::message_type::monitor_message, 1, 5).kind == LinkKind::news);
  CHECK(read(basp::message_type::down_message, 1, 5).kind == LinkKind::news);
  CHECK(read(basp::message_type::client_handshake, 1, 5).kind == LinkKind::handshake);
  CHECK(read(basp::message_type::heartbeat, 0, 0).kind == LinkKind::heartbeat);
}

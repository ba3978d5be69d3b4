// Peers that have no business here: without certificates, with another authority's, with bytes of chance.
#include "transport_fixture.hpp"

#include <gpuactors/wire/transport/channel.hpp>
#include <gpuactors/wire/transport/guests.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <sys/socket.h>

#include <future>
#include <random>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using transport::Channel;
using transport::Signal;

namespace {

constexpr BulkTimes patient{milliseconds{300}, milliseconds{300}, milliseconds{60'000}};

Channel connect(const BulkServer& server, const Signal& stop) {
  const auto& address = server.address();
  auto socket = address.endpoint.port == 0 ? transport::connect_local(address.socket, stop, never)
                                           : transport::connect_tcp(address.endpoint, stop, never);
  REQUIRE(socket.has_value());
  return Channel{std::move(*socket), stop};
}

/// Whether the other side ends the connection, whatever it says before.
bool ends(Channel& channel) {
  std::byte ignored[256];
  for (;;)
    if (const auto got = channel.read_some(ignored, sizeof ignored, Clock::now() + std::chrono::minutes{1}); !got)
      return got.error().code() == Errc::worker_died;
}

} // namespace

TEST_CASE_METHOD(TransportFixture, "who has a certificate of another authority is refused, and so is such a server",
                 "[transport]") {
  const auto serves = server(Way::tls);
  REQUIRE(serves->add(1, filled(10)).has_value());
  BulkClientOptions options;
  options.certificates = certificates("others");
  const auto stranger = std::move(*BulkClient::create(options));
  CHECK_THAT(why_not(stranger->fetch(serves->address(), 1, 10, never), Errc::unavailable), Contains("certificate"));
  // One that trusts us, but that we do not trust.
  options.certificates->authority = certificates().authority;
  const auto pretender = std::move(*BulkClient::create(options));
  CHECK_THAT(why_not(pretender->fetch(serves->address(), 1, 10, never), Errc::unavailable), Contains("unknown ca"));
  CHECK(client(Way::tls)->fetch(serves->address(), 1, 10, never).has_value());
}

TEST_CASE_METHOD(TransportFixture, "who has no certificate is refused", "[transport]") {
  const auto serves = server(Way::tls);
  REQUIRE(serves->add(1, filled(10)).has_value());
  const auto stop = std::move(*Signal::make());
  auto channel = connect(*serves, stop);
  // TLS with a context that trusts the server and shows nothing.
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_method()), &SSL_CTX_free};
  const auto socket = transport::connect_tcp(serves->address().endpoint, stop, never);
  const std::unique_ptr<SSL, decltype(&SSL_free)> session{SSL_new(context.get()), &SSL_free};
  SSL_set_fd(session.get(), socket->get());
  int result = 0;
  char byte = 0;
  while ((result = SSL_connect(session.get())) != 1)
    REQUIRE(transport::wait_for(socket->get(), 1, stop, Clock::now() + std::chrono::minutes{1}).has_value());
  while ((result = SSL_read(session.get(), &byte, 1)) <= 0
         && SSL_get_error(session.get(), result) == SSL_ERROR_WANT_READ)
    REQUIRE(transport::wait_for(socket->get(), 1, stop, Clock::now() + std::chrono::minutes{1}).has_value());
  CHECK(result <= 0);
  CHECK_THAT(transport::tls_error(), Contains("certificate required"));
}

TEST_CASE_METHOD(TransportFixture, "TLS and plain do not mix: each side says so before a byte is sent", "[transport]") {
  const auto secure = server(Way::tls);
  const auto plain = server(Way::tcp);
  CHECK_THAT(why_not(client(Way::tcp)->fetch(secure->address(), 1, 1, never), Errc::invalid_argument),
             Contains("has no certificates"));
  CHECK_THAT(why_not(client(Way::tls)->fetch(plain->address(), 1, 1, never), Errc::invalid_argument),
             Contains("demands TLS"));
}

TEST_CASE_METHOD(TransportFixture, "TLS to a plain port and plain bytes to a TLS port end the connection",
                 "[transport]") {
  const auto secure = server(Way::tls, patient);
  const auto plain = server(Way::tcp, patient);
  auto to_secure = secure->address();
  to_secure.tls = false;
  auto to_plain = plain->address();
  to_plain.tls = true;
  const auto soon = Clock::now() + milliseconds{1'000};
  CHECK_FALSE(client(Way::tcp)->fetch(to_secure, 1, 1, soon).has_value());
  CHECK_FALSE(client(Way::tls)->fetch(to_plain, 1, 1, soon).has_value());
  CHECK(eventually([&] { return secure->connections() + plain->connections() == 0; }));
}

TEST_CASE_METHOD(TransportFixture, "random bytes cost a server nothing but the connection", "[transport]") {
  const auto stop = std::move(*Signal::make());
  std::mt19937 random{20'261'121};
  for (const auto way : all_ways) {
    const auto serves = server(way, patient);
    REQUIRE(serves->add(1, filled(10)).has_value());
    for (int i = 0; i < 100; ++i) {
      auto channel = connect(*serves, stop);
      std::vector<std::byte> bytes(transport::frame_bytes + random() % 2'000);
      for (auto& byte : bytes)
        byte = static_cast<std::byte>(random());
      // It may have been refused before all is sent.
      (void)channel.write_all(bytes.data(), bytes.size(), std::chrono::minutes{1}, never);
      REQUIRE(ends(channel));
    }
    CHECK(eventually([&] { return serves->connections() == 0; }));
    // As any other, it may take longer on a busy machine than this server allows.
    CHECK(eventually([&] { return client(way)->fetch(serves->address(), 1, 10, never).has_value(); }));
  }
}

TEST_CASE_METHOD(TransportFixture, "a frame with one wrong bit in its head ends the connection", "[transport]") {
  const auto stop = std::move(*Signal::make());
  const auto serves = server(Way::tcp);
  REQUIRE(serves->add(1, filled(10)).has_value());
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (bit == 32 || bit == 33)
      continue; // whether it maps, or opens device memory: both are right
    auto frame = encode(transport::Request{serves->address().server, 1, 10, false});
    frame[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    auto channel = connect(*serves, stop);
    REQUIRE(channel.write_frame(frame, never).has_value());
    CHECK(ends(channel));
  }
}

TEST_CASE_METHOD(TransportFixture, "huge sizes in a request cost nothing, and what follows is served", "[transport]") {
  const auto stop = std::move(*Signal::make());
  for (const auto way : {Way::local, Way::tcp}) {
    const auto serves = server(way);
    REQUIRE(serves->add(1, filled(10)).has_value());
    auto channel = connect(*serves, stop);
    transport::Frame frame;
    for (const std::uint64_t bytes : {~0ULL, 1ULL << 63, 0ULL}) {
      REQUIRE(channel.write_frame(encode(transport::Request{serves->address().server, 1, bytes, true}), never));
      REQUIRE(channel.read_frame(frame, never));
      CHECK(transport::decode_answer(frame)->status == transport::Status::other_size);
    }
    REQUIRE(channel.write_frame(encode(transport::Request{serves->address().server, 1, 10, true}), never));
    REQUIRE(channel.read_frame(frame, never));
    CHECK(transport::decode_answer(frame)->status == transport::Status::streamed);
  }
}

TEST_CASE_METHOD(TransportFixture, "a huge size that a client asks for is no allocation unless the server has it",
                 "[transport]") {
  const auto serves = server(Way::tcp);
  REQUIRE(serves->add(1, filled(10)).has_value());
  CHECK_THAT(why_not(client(Way::tcp)->fetch(serves->address(), 1, ~0ULL, never), Errc::invalid_argument),
             Contains("it has 10 bytes"));
}

TEST_CASE_METHOD(TransportFixture, "truncated frames and handshakes end with their time", "[transport]") {
  const auto stop = std::move(*Signal::make());
  for (const auto way : all_ways) {
    const auto serves = server(way, patient);
    auto channel = connect(*serves, stop);
    const auto frame = encode(transport::Request{});
    REQUIRE(channel.write_all(frame.data(), 7, std::chrono::minutes{1}, never).has_value());
    CHECK(ends(channel));
    auto silent = connect(*serves, stop);
    CHECK(ends(silent));
  }
}

TEST_CASE_METHOD(TransportFixture, "strangers who say nothing make room for those who do", "[transport]") {
  const auto stop = std::move(*Signal::make());
  const auto serves = server(Way::tls); // their time alone would be five seconds each
  REQUIRE(serves->add(1, filled(10)).has_value());
  std::vector<Channel> strangers;
  for (std::size_t i = 0; i < limits::bulk_strangers; ++i)
    strangers.push_back(connect(*serves, stop));
  REQUIRE(eventually([&] { return serves->connections() == limits::bulk_strangers; }));
  const auto begun = Clock::now();
  CHECK(client(Way::tls)->fetch(serves->address(), 1, 10, never).has_value());
  CHECK(Clock::now() - begun < limits::bulk_handshake);
  CHECK(ends(strangers.front())); // the oldest
}

TEST_CASE_METHOD(TransportFixture, "who is sent away before there is an answer asks again", "[transport]") {
  const auto stop = std::move(*Signal::make());
  for (const auto way : {Way::tcp, Way::tls}) {
    auto listener = must(transport::listen_tcp({"127.0.0.1", 0}));
    BulkAddress address;
    address.server = 1;
    address.endpoint = {"127.0.0.1", listener.port};
    address.tls = way == Way::tls;
    const auto accepted = [&] {
      must(transport::wait_for(listener.socket.get(), 1, stop, Clock::now() + std::chrono::minutes{1}));
      return Channel{must(transport::accept_next(listener.socket.get())), stop};
    };
    const auto fetches = client(way);
    auto outcome = std::async(std::launch::async, [&] { return fetches->fetch(address, 1, 10, never); });
    accepted().interrupt();
    auto channel = accepted();
    transport::Frame frame;
    if (address.tls)
      must(channel.secure(must(transport::TlsContext::load(certificates())), transport::TlsPart::accepts, never));
    must(channel.read_frame(frame, never));
    const std::vector<std::byte> bytes(10, std::byte{1});
    must(channel.write_frame(encode(transport::Answer{transport::Status::streamed, 1, bytes.size()}), never));
    must(channel.write_all(bytes.data(), bytes.size(), Duration::max(), never));
    CHECK(is_filled(must(outcome.get()), 10));
    // Until nobody is there any more.
    listener.socket.reset();
    channel.interrupt();
    why_not(fetches->fetch(address, 1, 10, never), Errc::worker_died);
  }
}

TEST_CASE_METHOD(TransportFixture, "a server needs certificates that can be used and an address that others can reach",
                 "[transport]") {
  BulkServerOptions options;
  options.listening.host = "0.0.0.0";
  const auto vague = BulkServer::start(options);
  REQUIRE_FALSE(vague.has_value());
  CHECK_THAT(vague.error().message(), Contains("all addresses"));
  options.listening = {.host = "127.0.0.1", .bind = "0.0.0.0"};
  CHECK(BulkServer::start(options).has_value());
  options.listening.host = "not a host";
  CHECK(BulkServer::start(options).error().code() == Errc::invalid_argument);
  options.listening.host = "127.0.0.1";
  options.certificates = CertificateFiles{"/none/ca.pem", "/none/node.pem", "/none/node.key", {}};
  CHECK_THAT(BulkServer::start(options).error().message(), Contains("/none/ca.pem cannot be used"));
}

TEST_CASE_METHOD(TransportFixture, "descriptors that a stranger sends to a server are closed", "[transport]") {
  const auto stop = std::move(*Signal::make());
  const auto serves = server(Way::local);
  const auto before = open_descriptors();
  {
    auto channel = connect(*serves, stop);
    const auto frame = encode(transport::Request{serves->address().server, 1, 1, false});
    for (int i = 0; i < 50; ++i) {
      REQUIRE(channel.write_frame(frame, RegionDescriptors{0, 1}, never).has_value());
      transport::Frame answer;
      REQUIRE(channel.read_frame(answer, never).has_value());
    }
  }
  CHECK(eventually([&] { return serves->connections() == 0 && open_descriptors() <= before; }));
}

TEST_CASE("a connection that comes when all have been waited for is closed, and nobody serves it") {
  auto changed = must(Signal::make());
  auto stop = must(Signal::make());
  transport::Guests guests{changed, 4};
  guests.join_all();
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const transport::Descriptor other{ends[1]};
  bool served = false;
  guests.add(Channel{transport::Descriptor{ends[0]}, stop}, [&](transport::Guests::Guest&) { served = true; });
  char byte = 0;
  CHECK(::recv(other.get(), &byte, 1, 0) == 0);
  CHECK(guests.size() == 0);
  CHECK_FALSE(served);
}

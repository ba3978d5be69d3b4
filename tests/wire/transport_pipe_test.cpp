// Pipe: what many threads send through one connection arrives whole and in order, whatever the socket takes and when.
#include "transport_fixture.hpp"

#include <gpuactors/wire/transport/pipe.hpp>

#include <support/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using transport::Pipe;

namespace {

/// Two ends of a connection: a pipe, and a socket that reads blocking. In TLS the handshake is made.
class Connection {
public:
  explicit Connection(bool secure, int buffer = 0, Duration collect = limits::link_collect,
                      Duration stall = limits::link_timeout,
                      std::shared_ptr<transport::Budget::Part> budget = nullptr) {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0);
    if (buffer > 0)
      REQUIRE(::setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0);
    for (const int end : ends_)
      REQUIRE(::fcntl(end, F_SETFL, O_NONBLOCK) == 0);
    transport::TlsSession session;
    if (secure)
      session = shake_hands();
    const auto call_loop = [this] {
      ++calls_;
      calls_.notify_all();
    };
    pipe_.emplace(ends_[0], std::move(session), call_loop, collect, stall, std::move(budget));
  }

  /// Slow, and one of those that have this name.
  Connection(const std::shared_ptr<transport::Budget>& budget, const std::string& name)
    : Connection(false, 16'000, limits::link_collect, limits::link_timeout, transport::Budget::part_of(budget, name)) {
    // nop
  }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ~Connection() {
    pipe_->close();
    for (const int end : ends_)
      if (end >= 0)
        ::close(end);
  }

  [[nodiscard]] Pipe& pipe() {
    return *pipe_;
  }

  /// How often the event loop was called.
  [[nodiscard]] int calls() const {
    return calls_;
  }

  /// What the event loop does: it sends when it was called, and then when the socket takes more.
  void loop() {
    for (int seen = 0; !over_; seen = calls_) {
      calls_.wait(seen);
      while (pipe_->send_rest({}) == Pipe::Rest::some)
        wait(ends_[0], POLLOUT);
    }
  }

  /// Ends `loop`.
  void stop() {
    over_ = true;
    ++calls_;
    calls_.notify_all();
  }

  /// Reads so many bytes at the other end.
  std::string read(std::size_t size) {
    std::string result;
    std::string piece(std::size_t{64} << 10, 0);
    while (result.size() < size) {
      std::size_t count = 0;
      const auto wanted = std::min(size - result.size(), piece.size());
      if (peer_ != nullptr) {
        if (SSL_read_ex(peer_.get(), piece.data(), wanted, &count) != 1)
          wait(ends_[1], POLLIN);
      } else if (const auto got = ::recv(ends_[1], piece.data(), wanted, 0); got > 0) {
        count = static_cast<std::size_t>(got);
      } else {
        wait(ends_[1], POLLIN);
      }
      result.append(piece, 0, count);
    }
    return result;
  }

  /// The other end writes.
  void write(std::string_view bytes) {
    if (peer_ != nullptr) {
      std::size_t done = 0;
      REQUIRE(SSL_write_ex(peer_.get(), bytes.data(), bytes.size(), &done) == 1);
    } else {
      REQUIRE(::send(ends_[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    }
  }

  /// The other end goes.
  void hang_up() {
    ::close(std::exchange(ends_[1], -1));
  }

private:
  static void wait(int socket, short what) {
    pollfd entry{socket, what, 0};
    ::poll(&entry, 1, 1'000);
  }

  transport::TlsSession shake_hands() {
    auto context = transport::TlsContext::load(fixture_.certificates());
    REQUIRE(context.has_value());
    auto server = context->open(ends_[0], transport::TlsPart::accepts);
    auto client = context->open(ends_[1], transport::TlsPart::connects_to_node);
    REQUIRE(server.has_value());
    REQUIRE(client.has_value());
    bool done = false;
    for (int turn = 0; turn < 10 && !done; ++turn) {
      const bool one = SSL_do_handshake(client->get()) == 1;
      done = SSL_do_handshake(server->get()) == 1 && one;
    }
    REQUIRE(done);
    peer_ = std::move(*client);
    return std::move(*server);
  }

  TransportFixture fixture_;
  int ends_[2] = {-1, -1};
  transport::TlsSession peer_;
  std::atomic<int> calls_{0};
  std::atomic<bool> over_{false};
  std::optional<Pipe> pipe_;
};

/// A message that says who sent it, which of the sender's it is, and how long it is.
std::string message(std::uint32_t sender, std::uint32_t number, std::uint32_t size) {
  const std::uint32_t words[] = {sender, number, size};
  std::string result(sizeof(words) + size, static_cast<char>('a' + number % 26));
  std::memcpy(result.data(), words, sizeof(words));
  return result;
}

/// The bytes that message `number` carries: mostly few, now and then more than a socket takes.
std::uint32_t size_of(std::uint32_t number) {
  return number % 97 == 0 ? 300'000 : number % 50;
}

/// Reads `count` messages; each sender's have to come in their order, and whole.
void check_messages(Connection& connection, std::uint32_t count) {
  std::map<std::uint32_t, std::uint32_t> next;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t words[3];
    const auto head = connection.read(sizeof(words));
    std::memcpy(words, head.data(), sizeof(words));
    const auto [sender, number, size] = words;
    REQUIRE(number == next[sender]++);
    REQUIRE(size == size_of(number));
    REQUIRE(head + connection.read(size) == message(sender, number, size));
  }
}

} // namespace

TEST_CASE("what many threads send through one pipe arrives whole and in each thread's order", "[pipe]") {
  const bool secure = GENERATE(false, true);
  INFO((secure ? "TLS" : "plaintext"));
  constexpr std::uint32_t threads = 4;
  constexpr std::uint32_t each = 400;
  Connection connection{secure, 16'000};
  std::thread loop{[&] { connection.loop(); }};
  std::vector<std::thread> senders;
  for (std::uint32_t sender = 0; sender < threads; ++sender)
    senders.emplace_back([&connection, sender] {
      for (std::uint32_t number = 0; number < each; ++number)
        if (!connection.pipe().send(message(sender, number, size_of(number))))
          std::abort();
    });
  check_messages(connection, threads * each);
  for (auto& sender : senders)
    sender.join();
  connection.stop();
  loop.join();
}

TEST_CASE("a message of an idle connection is sent by its thread, one close behind it by the event loop", "[pipe]") {
  const bool secure = GENERATE(false, true);
  Connection idle{secure, 0, Duration::zero()};
  for (int i = 0; i < 100; ++i) {
    CHECK(idle.pipe().send("one"));
    CHECK(idle.calls() == 0);
    CHECK(idle.read(3) == "one");
  }
  // However slow this thread is, it is not slower than that.
  Connection connection{secure, 0, std::chrono::seconds{10}};
  CHECK(connection.pipe().send("one"));
  CHECK(connection.calls() == 0);
  CHECK(connection.read(3) == "one");
  CHECK(connection.pipe().send("x"));
  CHECK(connection.calls() == 1);
  CHECK(connection.pipe().send("more"));
  CHECK(connection.calls() == 1); // the loop comes already
  CHECK(connection.pipe().send_rest({}) == Pipe::Rest::none);
  CHECK(connection.read(5) == "xmore");
}

TEST_CASE("a peer that does not read keeps no sender waiting, and misses nothing", "[pipe]") {
  const bool secure = GENERATE(false, true);
  Connection connection{secure, 16'000};
  const std::string large(3 * mib, 'x');
  CHECK(connection.pipe().send(large));
  CHECK(connection.calls() == 1);
  CHECK(connection.pipe().send("behind it"));
  CHECK(connection.pipe().send_rest("from the loop") == Pipe::Rest::some);
  connection.pipe().keep("kept");
  CHECK(connection.calls() == 1);
  std::thread loop{[&] { connection.loop(); }};
  CHECK(connection.read(large.size()) == large);
  CHECK(connection.read(26) == "behind itfrom the loopkept");
  connection.stop();
  loop.join();
}

TEST_CASE("a peer that takes nothing for too long loses its connection, not the process its memory", "[pipe]") {
  Connection connection{false, 16'000, limits::link_collect, Duration{0}};
  const std::string large(4 * mib, 'x');
  std::size_t taken = 0;
  while (taken <= 2 * limits::link_waiting_bytes && connection.pipe().send(large))
    taken += large.size();
  CHECK(taken > limits::link_waiting_bytes / 2);
  CHECK(taken <= limits::link_waiting_bytes + 2 * large.size());
  // The event loop waits for the socket, which says nothing any more: it is called once more.
  CHECK(connection.calls() == 2);
  CHECK(connection.pipe().send_rest({}) == Pipe::Rest::failed);
}

TEST_CASE("what CAF itself writes to a peer that takes nothing is bounded, too", "[pipe]") {
  Connection connection{false, 16'000, limits::link_collect, Duration{0}};
  const std::string large(64 * mib, 'x');
  CHECK(connection.pipe().send_rest(large) == Pipe::Rest::some);
  int kept = 1;
  while (kept < 10 && connection.pipe().keep(large))
    ++kept;
  CHECK(kept == 5);
}

namespace {

std::shared_ptr<transport::Budget> small_budget() {
  auto budget = std::make_shared<transport::Budget>();
  budget->one = 2 * mib;
  budget->all = 8 * mib;
  return budget;
}

} // namespace

TEST_CASE("of those who take less than they ask for, the greedy lose their connections when all have too much",
          "[pipe]") {
  const auto budget = small_budget();
  const std::string piece(mib, 'x');
  Connection modest{budget, "modest"};
  CHECK(modest.pipe().send(piece));
  {
    Connection greedy{budget, "greedy"};
    int sent = 0;
    while (sent < 100 && greedy.pipe().send(piece))
      ++sent;
    CHECK(sent > 6);
    CHECK(sent < 10);
    CHECK(greedy.pipe().send_rest({}) == Pipe::Rest::failed);
    // What it had is free for others, and those that have little go on.
    CHECK(budget->waiting <= mib);
    CHECK(modest.pipe().send(piece));
  }
  std::thread loop{[&] { modest.loop(); }};
  CHECK(modest.read(2 * mib).size() == 2 * mib);
  modest.stop();
  loop.join();
  CHECK(budget->waiting == 0);
}

TEST_CASE("many connections of one name have no more room than one, however modest each is", "[pipe]") {
  const auto budget = small_budget();
  const std::string piece(mib, 'x');
  Connection modest{budget, "modest"};
  CHECK(modest.pipe().send(piece));
  std::vector<std::unique_ptr<Connection>> crowd;
  for (int i = 0; i < 30; ++i) {
    crowd.push_back(std::make_unique<Connection>(budget, "crowd"));
    crowd.back()->pipe().send(piece);
    crowd.back()->pipe().send(std::string(1'000, 'x'));
    CHECK(budget->waiting < 10 * mib);
  }
  CHECK(modest.pipe().send(piece));
  crowd.clear();
  CHECK(budget->waiting <= 2 * mib);
}

TEST_CASE("a peer that is slow for a moment keeps its connection, however much waits for it", "[pipe]") {
  Connection connection{false, 16'000};
  const std::string large(64 * mib, 'x');
  for (int i = 0; i < 6; ++i)
    CHECK(connection.pipe().send(large));
  CHECK(connection.calls() == 1);
}

TEST_CASE("a pipe whose peer has gone refuses what is sent, and tells the event loop once", "[pipe]") {
  const bool secure = GENERATE(false, true);
  Connection connection{secure};
  connection.hang_up();
  CHECK_FALSE(connection.pipe().send("lost"));
  CHECK(connection.calls() == 1);
  CHECK_FALSE(connection.pipe().send("lost too"));
  CHECK(connection.calls() == 1);
  CHECK(connection.pipe().send_rest("and this") == Pipe::Rest::failed);
  char byte = 0;
  std::size_t done = 0;
  CHECK(connection.pipe().read(&byte, 1, done) == Pipe::Read::failed);
}

TEST_CASE("a pipe that is given up sends what it has, and takes nothing more", "[pipe]") {
  Connection connection{GENERATE(false, true), 16'000};
  const std::string large(mib, 'x');
  CHECK(connection.pipe().send(large));
  connection.pipe().retire();
  CHECK_FALSE(connection.pipe().send("more"));
  std::thread loop{[&] { connection.loop(); }};
  CHECK(connection.read(large.size()) == large);
  connection.stop();
  loop.join();
}

TEST_CASE("a closed pipe sends and calls nothing", "[pipe]") {
  Connection connection{GENERATE(false, true), 16'000};
  CHECK(connection.pipe().send(std::string(mib, 'x')));
  const auto calls = connection.calls();
  connection.pipe().close();
  CHECK_FALSE(connection.pipe().send("more"));
  CHECK(connection.pipe().send_rest("more") == Pipe::Rest::none);
  CHECK(connection.calls() == calls);
}

TEST_CASE("a pipe reads ahead, and says what the socket will not announce", "[pipe]") {
  const bool secure = GENERATE(false, true);
  Connection connection{secure};
  std::size_t done = 0;
  char bytes[4];
  CHECK(connection.pipe().read(bytes, 4, done) == Pipe::Read::nothing);
  connection.write("eight ok");
  CHECK(connection.pipe().read(bytes, 4, done) == Pipe::Read::done);
  CHECK(std::string(bytes, done) == "eigh");
  CHECK(connection.pipe().has_pending());
  CHECK(connection.pipe().read(bytes, 4, done) == Pipe::Read::done);
  CHECK(std::string(bytes, done) == "t ok");
  CHECK_FALSE(connection.pipe().has_pending());
  CHECK(connection.pipe().read(bytes, 4, done) == Pipe::Read::nothing);
}

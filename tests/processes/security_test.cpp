// Clients that are not trusted, and strangers at every port: they are turned away, and the cluster serves on.
#include "fixture.hpp"
#include "stranger.hpp"

#include <support/sanitizers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stop_token>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Strangers = std::vector<Stranger>;

namespace {

constexpr std::size_t most_growth = 64U << 20;

/// A cluster with an actor in a worker process.
class Target {
public:
  /// @param before called with the folder of the certificates before anything starts.
  explicit Target(bool insecure = false, const std::function<void(const std::string&)>& before = {})
    : insecure_(insecure) {
    if (before)
      before(processes.certificates());
    const std::vector<std::string> plain = {"--insecure"};
    processes.start_broker(insecure ? plain : std::vector<std::string>{});
    processes.start_node("n0", "host:2x64MiB", insecure ? plain : std::vector<std::string>{});
    cluster.emplace(must(connect(processes.certificates(), insecure)));
    actor = must(cluster->spawn("counter", number(0), {.gpus = 0.5}));
    worker_ = pid_of(actor);
  }

  /// A client with these certificates, or in plaintext. Its patience is longer than that of any test.
  [[nodiscard]] Result<Cluster> connect(const std::string& certificates, bool insecure = false) const {
    ConnectOptions options;
    options.broker = processes.broker();
    options.certificates = certificates;
    options.insecure = insecure;
    options.timeout = 60s;
    options.heartbeat = 200ms;
    options.link_timeout = Processes::patience;
    return Cluster::connect(options);
  }

  /// Why such a client is refused, which it hears soon.
  [[nodiscard]] std::string why_refused(const std::string& certificates, bool insecure = false) const {
    const auto begin = Clock::now();
    const auto refused = connect(certificates, insecure);
    REQUIRE_FALSE(refused.has_value());
    INFO(to_string(refused.error()));
    CHECK(Clock::now() - begin < 10s);
    return refused.error().message();
  }

  /// Whether a process has said that it refused somebody, and why.
  [[nodiscard]] bool said_refused(const std::string& why) {
    return eventually([&] {
      const auto text = processes.output();
      const auto at = text.find("refused a connection from 127.0.0.1: ");
      return at != std::string::npos && text.find(why, at) != std::string::npos;
    });
  }

  /// The actor answers, from the process in which it always was; new work and new clients are served.
  void check_serves_on() {
    CHECK(pid_of(actor) == worker_);
    CHECK(must(cluster->submit<Number>("pid", {}, {.gpus = 0.5}).get(20s)).value() > 0);
    CHECK(must(connect(processes.certificates(), insecure_)).state().has_value());
  }

  [[nodiscard]] std::vector<pid_t> pids() {
    auto all = processes.pids("broker");
    const auto node = processes.pids("n0");
    all.insert(all.end(), node.begin(), node.end());
    return all;
  }

  [[nodiscard]] std::set<std::uint16_t> ports() {
    auto found = listening_ports(pids());
    // Those of the broker, of the node's agent, and of a worker.
    REQUIRE(found.size() >= 3);
    return found;
  }

  [[nodiscard]] std::uint16_t broker_port() const {
    return static_cast<std::uint16_t>(std::stoul(processes.broker().substr(processes.broker().rfind(':') + 1)));
  }

  Processes processes;
  std::optional<Cluster> cluster;
  ActorRef actor;

private:
  bool insecure_;
  pid_t worker_ = 0;
};

/// Calls an actor without end, and holds what its cluster's processes do meanwhile.
class Watch {
public:
  explicit Watch(Target& target) : target_(target) {
    for (const auto pid : target.pids())
      before_[pid] = resident_bytes(pid);
    thread_ = std::thread{[this] {
      // At least once: what is watched may be over before this thread first runs.
      do
        ++(target_.actor.call<Number>("add", number(1), 10s).get() ? answered_ : failed_);
      while (!stop_);
    }};
  }

  ~Watch() {
    stop();
  }

  /// Everything was answered, nothing has ended, and no memory was taken.
  void check() {
    stop();
    CHECK(answered_ > 0);
    CHECK(failed_ == 0);
    for (const auto& [pid, bytes] : before_) {
      INFO("process " << pid);
      // What a connection took is back when its end was noticed.
      CHECK(eventually([&, pid = pid, bytes = bytes] {
        const auto now = resident_bytes(pid);
        return now > 0 && (now < bytes + most_growth || !frees_at_once);
      }));
    }
    target_.check_serves_on();
  }

private:
  void stop() {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }

  Target& target_;
  std::map<pid_t, std::size_t> before_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> answered_{0};
  std::atomic<std::size_t> failed_{0};
  std::thread thread_;
};

std::string random_bytes(std::minstd_rand& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (auto& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

/// Days ago.
CertificateFolder::Now ago(int days) {
  return [days] { return std::chrono::system_clock::now() - std::chrono::hours{24} * days; };
}

/// A header of CAF's protocol, in its byte order, that announces a payload.
std::string header(std::uint8_t operation, std::uint32_t payload, std::uint64_t target) {
  std::string bytes{static_cast<char>(operation), 0, 0, 0};
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(payload >> shift));
  bytes.append(16, '\0'); // the operation's own number, and the sender
  for (int shift = 56; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>(target >> shift));
  return bytes;
}

} // namespace

TEST_CASE("a client without certificates is refused at every port", "[processes][security]") {
  Target target;
  const TemporaryFolder empty;
  CHECK_THAT(target.why_refused(empty.path().string()), Contains("gpuactors certs"));
  for (const auto port : target.ports()) {
    INFO("port " << port);
    CHECK_THAT(tls_refusal(port, std::nullopt), Contains("certificate required"));
  }
  CHECK(target.said_refused("it shows no certificate"));
  target.check_serves_on();
}

TEST_CASE("a client with a certificate of another authority is refused at every port", "[processes][security]") {
  Target target;
  const TemporaryFolder folder;
  const CertificateFolder others{folder / "others"};
  const auto files = must(others.init(10));
  CHECK_THAT(target.why_refused(others.path().string()), Contains("not of the same authority"));
  for (const auto port : target.ports()) {
    INFO("port " << port);
    CHECK_THAT(tls_refusal(port, files), Contains("unknown ca"));
  }
  CHECK(target.said_refused("not of the same authority"));
  target.check_serves_on();
}

TEST_CASE("a client whose certificate has expired is refused at every port", "[processes][security]") {
  const TemporaryFolder folder;
  std::optional<CertificateFiles> expired;
  Target target{false, [&](const std::string& certificates) {
                  const CertificateFolder then{certificates, ago(30)};
                  must(then.init(1000));
                  expired = must(then.issue({"late", {}, 1}, folder / "late"));
                }};
  CHECK_THAT(target.why_refused((folder / "late").string()), Contains("expired"));
  for (const auto port : target.ports()) {
    INFO("port " << port);
    CHECK_THAT(tls_refusal(port, expired), Contains("certificate expired"));
  }
  CHECK(target.said_refused("expired"));
  target.check_serves_on();
}

TEST_CASE("a client's certificate permits to use a cluster, and neither to serve nor to administer it",
          "[processes][security]") {
  const TemporaryFolder folder;
  Target target{false, [&](const std::string& certificates) {
                  const CertificateFolder cluster{certificates};
                  must(cluster.init(10));
                  for (const auto* name : {"alice", "bob"})
                    must(cluster.issue({name, {}, {}, CertificateRole::client}, folder / name));
                }};
  auto alice = must(target.connect((folder / "alice").string()));
  auto bob = must(target.connect((folder / "bob").string()));

  // All that work needs.
  auto hers = must(alice.spawn("counter", number(1), {.gpus = 0.25, .name = "hers", .detached = true}));
  CHECK(must(hers.call<Number>("add", number(1)).get(20s)).value() == 2);
  CHECK(must(bob.find("hers")).call<Number>("add", number(1)).get(20s).has_value());
  CHECK(must(bob.submit<Number>("pid", {}, {.gpus = 0.25}).get(20s)).value() > 0);
  CHECK(must(alice.state()).actors_size() == 2);
  CHECK(alice.logs("hers", {}, [](const LogRecord&) { return true; }).has_value());
  // Whoever has it stopped, also before the first line, has no error.
  std::stop_source stopped;
  stopped.request_stop();
  CHECK(alice.logs("hers", {.follow = true, .stop = stopped.get_token()}, [](const LogRecord&) { return true; }));

  // What is another's, and what is the cluster's, is not to be touched.
  const auto refused = bob.kill("hers");
  REQUIRE(code_of(refused) == Errc::permission_denied);
  CHECK(says(refused.error(), "belongs to \"alice\""));
  CHECK(code_of(bob.kill(target.actor)) == Errc::permission_denied);
  CHECK(code_of(bob.drain("n0")) == Errc::permission_denied);
  CHECK(code_of(alice.drain("n0")) == Errc::permission_denied);
  DaemonOptions daemon;
  daemon.certificates = (folder / "bob").string();
  NodeDaemon node;
  node.broker = target.processes.broker();
  CHECK(code_of(run_node(node, daemon)) == Errc::permission_denied);
  CHECK(must(hers.call<Number>("add", number(1)).get(20s)).value() == 4);

  // One's own may be ended, also by another program of the same name; a node's certificate permits everything.
  CHECK(must(target.connect((folder / "alice").string())).kill("hers").has_value());
  auto his = must(bob.spawn("counter", number(1), {.gpus = 0.25, .name = "his", .detached = true}));
  CHECK(target.cluster->kill("his").has_value());
  target.check_serves_on();
}

TEST_CASE("a client whose certificate is revoked loses its connections, and does not get in again",
          "[processes][security]") {
  const TemporaryFolder folder;
  Target target{false, [&](const std::string& certificates) {
                  const CertificateFolder cluster{certificates};
                  must(cluster.init(10));
                  must(cluster.issue({"alice", {}, {}, CertificateRole::client}, folder / "alice"));
                }};
  auto alice = must(target.connect((folder / "alice").string()));
  auto hers = must(alice.spawn("counter", number(1), {.gpus = 0.25, .name = "hers"}));
  must(CertificateFolder{target.processes.certificates()}.revoke("alice"));
  CHECK(eventually([&] { return !hers.call<Number>("add", number(1), 1s).get(); }));
  // Her actor ends with her connection, as if she had gone.
  CHECK(eventually([&] { return must(target.cluster->state()).actors_size() == 1; }));
  CHECK_THAT(target.why_refused((folder / "alice").string()), Contains("revoked"));
  for (const auto port : target.ports()) {
    INFO("port " << port);
    CHECK_THAT(tls_refusal(port, must(CertificateFolder{folder / "alice"}.check())), Contains("certificate revoked"));
  }
  CHECK(target.said_refused("revoked"));
  target.check_serves_on();
}

TEST_CASE("a client in plaintext is refused by a cluster that speaks TLS", "[processes][security]") {
  Target target;
  CHECK_THAT(target.why_refused({}, true), Contains("--insecure"));
  CHECK(target.said_refused("--insecure"));
  target.check_serves_on();
}

TEST_CASE("a client that speaks TLS is refused by a cluster in plaintext", "[processes][security]") {
  Target target{true};
  const TemporaryFolder folder;
  const CertificateFolder own{folder / "own"};
  must(own.init(10));
  CHECK_THAT(target.why_refused(own.path().string()), Contains("--insecure"));
  CHECK(target.said_refused("it speaks TLS"));
  target.check_serves_on();
}

TEST_CASE("bytes of chance, truncated records and huge lengths do a cluster no harm", "[processes][security]") {
  Target target;
  Watch watch{target};
  std::minstd_rand random{7};
  // A record of TLS says its kind, its version and its length; the first message of a handshake its kind and its
  // length.
  const std::string hello{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11};
  const std::string huge{"\x16\x03\x03\xff\xff\x01\xff\xff\xff", 9};
  const std::string data{"\x17\x03\x03\x40\x00", 5};
  for (const auto port : target.ports()) {
    INFO("port " << port);
    Strangers truncated;
    for (int i = 0; i < 8; ++i) {
      const Stranger noise{port};
      noise.say(random_bytes(random, 1 + random() % 20'000));
      const Stranger lengths{port};
      lengths.say(huge + random_bytes(random, 70'000));
      CHECK(lengths.is_sent_away());
      const Stranger early{port};
      early.say(data + random_bytes(random, 0x4000));
      CHECK(early.is_sent_away());
      truncated.emplace_back(port).say(hello.substr(0, 1 + random() % hello.size()));
      // Ends in the middle of a record.
      Stranger{port}.say(hello + random_bytes(random, random() % 500));
    }
    // Whoever does not go on is not waited for.
    for (const auto& stranger : truncated)
      CHECK(stranger.is_sent_away());
  }
  watch.check();
}

TEST_CASE("200 connections that say nothing do a cluster no harm", "[processes][security]") {
  Target target;
  Watch watch{target};
  for (const auto port : target.ports()) {
    INFO("port " << port);
    Strangers silent;
    for (int i = 0; i < 200; ++i)
      silent.emplace_back(port);
    // Who has a certificate gets in all the same.
    target.check_serves_on();
  }
  watch.check();
}

TEST_CASE("in plaintext too, nobody makes a process take memory by announcing a large message",
          "[processes][security]") {
  Target target{true};
  Watch watch{target};
  constexpr std::uint8_t client_handshake = 1;
  constexpr std::uint8_t direct_message = 2;
  for (const auto port : target.ports())
    for (const auto operation : {client_handshake, direct_message}) {
      INFO("port " << port << ", operation " << int{operation});
      const Stranger stranger{port};
      stranger.greet();
      stranger.say(header(operation, 0xffff'ffff, operation == direct_message ? 1 : 0));
      CHECK(stranger.is_sent_away());
    }
  watch.check();
}

TEST_CASE("in plaintext, many who announce large messages and send none are sent away", "[processes][security]") {
  Target target{true};
  Watch watch{target};
  constexpr std::uint8_t client_handshake = 1;
  constexpr std::uint32_t announced = 60U << 20;
  constexpr auto welcome = limits::links_announced_bytes / announced;
  for (const auto port : target.ports()) {
    INFO("port " << port);
    Strangers strangers;
    for (std::size_t i = 0; i < welcome + 4; ++i) {
      const auto& stranger = strangers.emplace_back(port);
      stranger.greet();
      stranger.say(header(client_handshake, announced, 0));
    }
    CHECK(eventually([&] {
      return std::count_if(strangers.begin(), strangers.end(), [](const auto& one) { return one.was_sent_away(); })
             >= 4;
    }));
  }
  watch.check();
}

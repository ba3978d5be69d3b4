// The cluster that a user of a program chooses: arguments, environment, and what cannot be meant.
#include <gpuactors/cluster/detail/daemon_core.hpp>

#include <support/no_threads.hpp>

#include <cluster/fixtures.hpp>

#include <cerrno> // program_invocation_short_name
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

Result<OpenOptions> read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return OpenOptions::from_arguments(static_cast<int>(arguments.size()), arguments.data());
}

std::string why_not(const std::vector<const char*>& arguments) {
  const auto refused = read(arguments);
  if (refused)
    return "";
  CHECK(refused.error().code() == Errc::invalid_argument);
  return refused.error().message();
}

/// Sets a variable, or removes it, for as long as this lives: who runs the tests may have it set.
class Variable {
public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const auto* before = std::getenv(name_); before != nullptr)
      before_ = before;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    set(before_ ? before_->c_str() : nullptr);
  }

private:
  void set(const char* value) const {
    if (value != nullptr)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

constexpr auto broker_variable = "GPUACTORS_BROKER";
constexpr auto certs_variable = "GPUACTORS_CERTS";

/// Gives the program's file another name for as long as this lives.
class ProgramName {
public:
  explicit ProgramName(std::string name) : name_(std::move(name)), before_(program_invocation_short_name) {
    program_invocation_short_name = name_.data();
  }
  ProgramName(const ProgramName&) = delete;
  ProgramName& operator=(const ProgramName&) = delete;
  ~ProgramName() {
    program_invocation_short_name = before_;
  }

private:
  std::string name_;
  char* before_;
};

} // namespace

TEST_CASE("a cluster may be closed by another thread than the one that opened it and goes on", "[cluster]") {
  auto cluster = std::make_optional(embed());
  CHECK(cluster->submit<Text>("echo", text("x")).get().has_value());
  const auto actor = must(cluster->spawn("fraction", {}, {.gpus = 0.5}));
  CHECK(actor.call<Names>("ids").get().has_value());
  std::thread{[&] { cluster.reset(); }}.join();
  CHECK_FALSE(actor.call<Names>("ids").get().has_value());
}

TEST_CASE("several threads may close a cluster at once", "[cluster]") {
  auto cluster = embed();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { cluster.close(); });
  for (auto& thread : threads)
    thread.join();
  CHECK(cluster.submit<Text>("echo", text("x")).get().error().code() == Errc::unavailable);
}

TEST_CASE("without threads no cluster is opened, and one is when there are some again", "[cluster]") {
  ConnectOptions options;
  options.broker = "127.0.0.1:1";
  options.insecure = true;
  options.timeout = 0s;
  {
    const NoThreads none;
    const auto code_of = [](const auto& refused) {
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().message().find("the machine has no threads for a cluster: ") == 0);
      return refused.error().code();
    };
    CHECK(code_of(Cluster::embed()) == Errc::unavailable);
    CHECK(code_of(Cluster::connect(options)) == Errc::unavailable);
    CHECK(code_of(detail::DaemonCore::make({})) == Errc::unavailable);
  }
  CHECK(Cluster::embed().has_value());
  CHECK(Cluster::connect(options).has_value());
  CHECK(detail::DaemonCore::make({}).has_value());
}

TEST_CASE("a program whose file is named in other bytes than UTF-8 is shown all the same", "[cluster]") {
  const ProgramName name{"tr\xE4ner"};
  auto cluster = embed();
  const auto state = must(cluster.state());
  REQUIRE(state.clients_size() == 1);
  CHECK(state.clients(0).name().find("tr\xEF\xBF\xBDner on ") == 0);
}

TEST_CASE("arguments choose the cluster, in both spellings, and the program's own are left alone", "[cluster]") {
  const Variable none{broker_variable, nullptr};
  const auto running = must(read({"--epochs", "3", "--broker=127.0.0.1:7711", "--certs", "there", "--insecure",
                                  "--heartbeat", "0.5", "--link-timeout=2", "--reconnect-grace", "60"}));
  CHECK(running.connects());
  CHECK(running.connect.broker == "127.0.0.1:7711");
  CHECK(running.connect.certificates == "there");
  CHECK(running.connect.insecure);
  CHECK(running.connect.heartbeat == 500ms);
  CHECK(running.connect.link_timeout == 2s);
  CHECK(running.connect.reconnect_grace == 60s);
  CHECK(running.check().has_value());
  const auto embedded = must(read({"--devices", "host:1", "--devices=host:2x1GiB", "--", "--broker", "x"}));
  CHECK_FALSE(embedded.connects());
  CHECK(embedded.embed.devices == "host:1 host:2x1GiB");
  CHECK(embedded.check().has_value());
}

TEST_CASE("a program's own command line opens an embedded cluster", "[cluster]") {
  const Variable none{broker_variable, nullptr};
  const std::vector<const char*> arguments{"program", "--devices", "host:1x1MiB", "--epochs", "3", "--", "--brokr"};
  CHECK(Cluster::open(static_cast<int>(arguments.size()), arguments.data()).has_value());
}

TEST_CASE("the environment names the broker where the arguments do not", "[cluster]") {
  const Variable variable{broker_variable, "127.0.0.1:1"};
  CHECK(must(read({})).connect.broker == "127.0.0.1:1");
  CHECK(must(read({"--broker", "127.0.0.1:2"})).connect.broker == "127.0.0.1:2");
}

TEST_CASE("the environment names the folder of certificates where the arguments do not", "[cluster]") {
  const Variable variable{certs_variable, "/their/certs"};
  CHECK(must(read({})).connect.certificates == "/their/certs");
  CHECK(must(read({"--certs", "here"})).connect.certificates == "here");
  CHECK(must(read({"--certs="})).connect.certificates.empty()); // the user's own, whatever the variable says
  const Variable none{certs_variable, nullptr};
  CHECK(must(read({})).connect.certificates.empty());
}

TEST_CASE("plaintext needs no certificates, also where the environment names some", "[cluster]") {
  const Variable certs{certs_variable, "/nowhere/at/all"};
  auto options = must(read({"--broker", "127.0.0.1:1"}));
  options.connect.timeout = 0s;
  const auto refused = Cluster::open(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("/nowhere/at/all") != std::string::npos);
  options.connect.insecure = must(read({"--insecure"})).connect.insecure;
  CHECK(Cluster::open(options).has_value());
}

TEST_CASE("arguments that cannot be meant are refused", "[cluster]") {
  CHECK(why_not({"--broker"}) == "--broker needs a value");
  CHECK(why_not({"--insecure=1"}) == "--insecure=1: --insecure takes no value");
  CHECK(why_not({"--heartbeat", "often"}) == "--heartbeat is \"often\": seconds are expected, such as 0.5");
  CHECK(why_not({"--link-timeout=-1"}).find("seconds are expected") != std::string::npos);
  for (const auto* misspelled : {"--brokr=127.0.0.1:1", "--device", "--insecre", "--link-timout"})
    CHECK(why_not({misspelled, "x"}).find("did you mean \"--") != std::string::npos);
}

TEST_CASE("what belongs to another cluster, or is out of its limits, is refused before anything is opened",
          "[cluster]") {
  const Variable none{broker_variable, nullptr};
  const auto why = [](const std::vector<const char*>& arguments) {
    const auto refused = Cluster::open(must(read(arguments)));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == Errc::invalid_argument);
    return refused.error().message();
  };
  CHECK(why({"--broker", "127.0.0.1:1", "--devices", "host:1"}).find("has its own") != std::string::npos);
  CHECK(why({"--broker", "nowhere"}).find("HOST:PORT") != std::string::npos);
  CHECK(why({"--devices", "host:0"}).find("host:COUNT") != std::string::npos);
  CHECK(why({"--broker", "127.0.0.1:1", "--heartbeat", "0.01"})
        == "the heartbeat is 0.01 s: 0.05 to 60 s are expected");
  CHECK(why({"--broker", "127.0.0.1:1", "--link-timeout", "inf"}).find("0.2 to 600 s") != std::string::npos);
  CHECK(why({"--broker", "127.0.0.1:1", "--heartbeat", "10"}).find("at least twice as long") != std::string::npos);
  CHECK(why({"--broker", "127.0.0.1:1", "--reconnect-grace", "1e9"}).find("at most 86400 s") != std::string::npos);
}

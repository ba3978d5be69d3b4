// A program whose broker is of a release that does not understand it: it is told so, and waits for nothing.
#include <gpuactors/base/version.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/cluster/detail/broker_link.hpp>
#include <gpuactors/wire/greeting.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <wire/linked_process.hpp>
#include <wire/raw_peer.hpp>

#include <future>
#include <memory>
#include <string>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;

namespace {

/// The greeting of a release far from now.
std::string later_greeting() {
  return detail::to_line({1001, 1003, "77.0", detail::own_greeting().caf});
}

class WaitsForError : public PendingReply {
public:
  void on_reply(MessageContent&) override {
    error_.set_value({Errc::none, ""});
  }

  void on_error(Error error) override {
    error_.set_value(std::move(error));
  }

  Error wait() {
    return error_.get_future().get();
  }

private:
  std::promise<Error> error_;
};

} // namespace

TEST_CASE("nodes of an embedded cluster have the release of their program", "[cluster][releases]") {
  auto cluster = must(Cluster::embed());
  const auto state = must(cluster.state());
  REQUIRE(state.nodes_size() == 1);
  CHECK(state.nodes(0).release() == release);
}

TEST_CASE("a program that connects to a broker of a later release hears at once which of the two is too old",
          "[cluster][releases]") {
  RawPort broker{later_greeting()};
  ConnectOptions options;
  options.broker = to_string(broker.address());
  options.insecure = true;
  const auto cluster = Cluster::connect(options);
  REQUIRE_FALSE(cluster);
  CHECK(cluster.error().code() == Errc::unsupported);
  CHECK_THAT(cluster.error().message(),
             Contains("cannot connect to the broker at 127.0.0.1:") && Contains("77.0") && Contains(release));
}

TEST_CASE("requests of a program fail when its broker has become one that it does not understand",
          "[cluster][releases]") {
  RawPort broker{later_greeting()};
  LinkedProcess process;
  const auto link = std::make_shared<detail::BrokerLink>(process.port(), [] { return v1::Hello{}; });
  const auto waits = std::make_shared<WaitsForError>();
  link->ask(waits, never, v1::GetState{});
  // Also where all of several addresses have such a one.
  RawPort other{later_greeting()};
  auto addresses = std::vector{broker.address()};
  if (GENERATE(false, true))
    addresses.push_back(other.address());
  link->connect(process.links(), addresses);
  const auto error = waits->wait();
  CHECK(error.code() == Errc::unsupported);
  CHECK_THAT(error.message(), Contains("runs release 77.0"));
  link->close();
}

TEST_CASE("one of several brokers that a program does not understand ends no request: the other one may serve",
          "[cluster][releases]") {
  const RawPort later{later_greeting()};
  LinkedProcess serving;
  // With an argument: for a function without one, CAF binds a reference to a null pointer, which sanitizers report.
  const auto serve = [](caf::event_based_actor*, int) {
    return caf::behavior{[](const v1::Hello&, const caf::strong_actor_ptr&) { return v1::Done{}; },
                         [](const v1::GetState&) { return v1::ClusterState{}; }};
  };
  const auto broker = caf::actor_cast<caf::strong_actor_ptr>(serving.system().spawn(serve, 0));
  const auto port = must(serving.links().publish(broker, {"127.0.0.1", 0}));
  LinkedProcess process;
  const auto link = std::make_shared<detail::BrokerLink>(process.port(), [] { return v1::Hello{}; });
  const auto waits = std::make_shared<WaitsForError>();
  link->ask(waits, never, v1::GetState{});
  link->connect(process.links(), {later.address(), {"127.0.0.1", port}});
  CHECK(link->wait_until_up(std::chrono::seconds{20}));
  CHECK(waits->wait().code() == Errc::none);
  link->close();
  caf::anon_send_exit(broker, caf::exit_reason::kill);
}

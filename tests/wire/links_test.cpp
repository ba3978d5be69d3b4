// Links: a request on a connection that has just come to be is answered, one that breaks ends and lets its
// process end, and a redial that is stopped is silent.
#include "linked_process.hpp"
#include "raw_peer.hpp"

#include <gpuactors/wire/detail/basp.hpp>
#include <gpuactors/wire/detail/link_gate.hpp>
#include <gpuactors/wire/lanes.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

// The lanes are the way of calls with this version only.
#if GPUACTORS_CAF_017

#include <caf/forwarding_actor_proxy.hpp>
#include <caf/io/basp/version.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

/// Asks the actor of `other` the moment that there is a lane to it.
void greet(LinkedProcess& own, const LinkedProcess& other, const std::shared_ptr<Asker>& asker) {
  // A handle from before, as a process has that has heard of the actor from a third one.
  caf::actor_config config;
  auto to = caf::make_actor<caf::forwarding_actor_proxy, caf::strong_actor_ptr>(
      other.actor()->id(), other.actor()->node(), &own.system(), config, caf::actor_cast<caf::actor>(own.actor()));
  own.links().lanes()->watch([&own, to = std::move(to), asker](const caf::node_id& node) {
    if (node == to->node())
      own.port().ask(asker, to, deadline_after(Clock::now(), 5s), v1::Tick{});
  });
}

std::shared_ptr<Redial> redial_to(LinkedProcess& process, const LinkedProcess& other, Redial::OnChange on_change) {
  return std::make_shared<Redial>(process.links(), std::vector{other.address()}, std::move(on_change));
}

} // namespace

TEST_CASE("no two processes are the same to CAF, whatever they share", "[wire]") {
  using Identity = caf::node_id::default_data;
  const auto host_of = [](caf::actor_system& system) {
    // The last byte counts the systems of one process, with CAF alone.
    auto host = static_cast<const Identity*>(std::as_const(system.node()).operator->())->host_id();
    return std::vector(host.begin(), host.end() - 1);
  };
  LinkedProcess one;
  LinkedProcess other;
  CHECK(host_of(one.system()) != host_of(other.system()));
  System without_links;
  CHECK(one.system().node() != without_links.get().node());
  CHECK(one.ask(one.connect(other)));
}

TEST_CASE("a process that connects to a port of its own is told so", "[wire]") {
  LinkedProcess process;
  const auto connected = process.connect_async(process.address()).get();
  REQUIRE(!connected);
  CHECK(connected.error().code() == Errc::invalid_argument);
  CHECK(connected.error().message() == to_string(process.address()) + " is a port of this process itself");
}

TEST_CASE("a request sent the moment that there is a lane comes after the words with which its connection begins",
          "[wire]") {
  LinkedProcess accepting;
  LinkedProcess dialling;
  const bool dials = GENERATE(true, false);
  const auto asker = std::make_shared<Asker>();
  if (dials)
    greet(dialling, accepting, asker);
  else
    greet(accepting, dialling, asker);
  const auto kept = dialling.connect(accepting);
  // One that comes before them has no sender, for CAF: its answer goes nowhere.
  CHECK(asker->wait());
}

TEST_CASE("a connection that breaks while CAF ends it is over, and CAF does not end twice", "[wire]") {
  LinkedProcess process;
  const auto gate = must(detail::LinkGate::make(std::nullopt, [](std::string_view) {}));
  auto peer = std::make_optional(must(gate->dial(process.address(), soon())));
  // CAF has the connection when it says something.
  REQUIRE(transport::wait_for(peer->socket.get(), POLLIN, must(transport::Signal::make()), soon()));
  const auto broker = caf_version::protocol_broker<caf::io::basp_broker>(process.system());
  auto& ending = *static_cast<caf::io::broker*>(caf::actor_cast<caf::abstract_actor*>(broker));
  auto& loop = static_cast<caf::io::network::default_multiplexer&>(process.system().middleman().backend());
  std::promise<void> ended;
  // As at the end of a process, when the event loop has not heard yet that the other side has gone.
  loop.post([&] {
    const linger at_once{1, 0};
    ::setsockopt(peer->socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    peer.reset();
    for (const auto& connection : ending.connections()) {
      pollfd broken{static_cast<int>(connection.id()), 0, 0};
      ::poll(&broken, 1, -1);
      ending.write(connection, 4, "last");
    }
    ending.context(&loop);
    ending.quit();
    ending.finalize();
    ended.set_value();
  });
  ended.get_future().wait();
  CHECK(ending.connections().empty());
}

namespace {

/// A connection to `process` that says what CAF's processes say first, with this name.
RawPeer greeted(detail::LinkGate& gate, LinkedProcess& process, const caf::node_id& name) {
  RawPeer peer{std::move(must(gate.dial(process.address(), soon())).socket)};
  caf_version::Bytes payload;
  REQUIRE(caf_version::encode(process.system(), name, payload));
  const caf::io::basp::header header{caf::io::basp::message_type::client_handshake,
                                     0,
                                     static_cast<std::uint32_t>(payload.size()),
                                     caf::io::basp::version,
                                     0,
                                     0};
  caf_version::Bytes bytes;
  REQUIRE(caf_version::encode(process.system(), header, bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  peer.say({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return peer;
}

} // namespace

TEST_CASE("a second connection of one process that speaks nonsense ends both, and nothing else", "[wire]") {
  LinkedProcess process;
  System other{LinkOptions{}};
  const auto name = other.get().node();
  const auto gate = must(detail::LinkGate::make(std::nullopt, [](std::string_view) {}));
  const auto broker = caf_version::protocol_broker<caf::io::basp_broker>(process.system());
  auto* const of_caf = static_cast<caf::io::broker*>(caf::actor_cast<caf::abstract_actor*>(broker));
  auto& loop = static_cast<caf::io::network::default_multiplexer&>(process.system().middleman().backend());
  const auto way = [&] {
    std::promise<std::optional<caf::io::connection_handle>> found;
    loop.post([&] { found.set_value(detail::way_to(of_caf, name)); });
    return found.get_future().get();
  };
  auto first = greeted(*gate, process, name);
  REQUIRE(eventually([&] { return way().has_value(); }));
  auto second = greeted(*gate, process, name);
  second.say(std::string(detail::link_header_size, '\x7f'));
  CHECK(second.is_sent_away());
  // Its actors count as lost here: so does the other side's process, there.
  CHECK(first.is_sent_away());
  CHECK(eventually([&] { return !way(); }));
}

namespace {

/// The actor that speaks CAF's protocol, for use in the event loop.
caf::io::basp_broker& broker_of(LinkedProcess& process) {
  const auto broker = caf_version::protocol_broker<caf::io::basp_broker>(process.system());
  return *static_cast<caf::io::basp_broker*>(caf::actor_cast<caf::abstract_actor*>(broker));
}

/// What `look` returns when the event loop calls it.
template <class Look>
auto in_loop(LinkedProcess& process, Look look) {
  std::promise<decltype(look())> seen;
  static_cast<caf::io::network::default_multiplexer&>(process.system().middleman().backend()).post([&] {
    seen.set_value(look());
  });
  return seen.get_future().get();
}

/// Bytes that the buffers of all connections of `process` take.
std::size_t buffered_bytes(LinkedProcess& process) {
  struct Open : caf::io::broker {
    static auto connections_of(caf::io::abstract_broker& broker) {
      constexpr auto of_connections =
          static_cast<scribe_map& (caf::io::abstract_broker::*)(caf::io::connection_handle)>(&Open::get_map);
      return (broker.*of_connections)(caf::io::connection_handle{});
    }
  };
  return in_loop(process, [&process] {
    std::size_t bytes = 0;
    for (const auto& [handle, scribe] : Open::connections_of(broker_of(process)))
      bytes += scribe->rd_buf().capacity() + scribe->wr_buf().capacity();
    return bytes;
  });
}

} // namespace

TEST_CASE("processes that have come and gone leave no actor of CAF's behind", "[wire]") {
  LinkedProcess process;
  constexpr int others = 5;
  for (int i = 0; i < others; ++i) {
    LinkedProcess other;
    const bool dials = i % 2 == 0;
    CHECK((dials ? process.ask(process.connect(other)) : other.ask(other.connect(process))));
    CHECK(in_loop(other, [&] { return broker_of(other).spawn_servers.empty(); }));
  }
  CHECK(in_loop(process, [&] { return broker_of(process).spawn_servers.empty(); }));
}

TEST_CASE("a connection gives back the memory of a large message when that has gone", "[wire]") {
  LinkOptions options;
  options.heartbeat = 50ms;
  LinkedProcess from{options};
  LinkedProcess to{options};
  const auto handle = from.connect(to);
  constexpr std::size_t large = std::size_t{16} << 20;
  // By CAF's own way, for which a buffer is filled here, too.
  v1::Tick tick;
  tick.GetReflection()->MutableUnknownFields(&tick)->AddLengthDelimited(1'000, std::string(large, 'x'));
  const auto asker = std::make_shared<Asker>();
  if (const auto ticket = from.port().add(asker, handle, deadline_after(Clock::now(), 20s)))
    caf_version::enqueue(handle, from.port().handle(), *ticket, tick);
  CHECK(asker->wait());
  CHECK(eventually([&] { return buffered_bytes(from) < large / 4 && buffered_bytes(to) < large / 4; }));
}

TEST_CASE("one more process is connected although many others have come and say nothing", "[wire]") {
  LinkedProcess process;
  LinkedProcess other;
  std::list<RawPeer> silent;
  for (std::size_t i = 0; i < limits::bulk_strangers; ++i)
    silent.emplace_back(other.address());
  CHECK(process.ask(process.connect(other)));
}

TEST_CASE("a process ends although another one takes none of its last bytes", "[wire]") {
  LinkOptions options;
  options.heartbeat = 100ms;
  options.timeout = 3s;
  auto process = std::make_unique<LinkedProcess>(options);
  const auto gate = must(detail::LinkGate::make(std::nullopt, [](std::string_view) {}));
  auto peer = std::make_optional(must(gate->dial(process->address(), soon())));
  REQUIRE(transport::wait_for(peer->socket.get(), POLLIN, must(transport::Signal::make()), soon()));
  const auto broker = caf_version::protocol_broker<caf::io::basp_broker>(process->system());
  auto* const of_caf = static_cast<caf::io::broker*>(caf::actor_cast<caf::abstract_actor*>(broker));
  std::promise<std::size_t> written;
  static_cast<caf::io::network::default_multiplexer&>(process->system().middleman().backend()).post([&] {
    const std::string more_than_fits(std::size_t{64} << 20, 'x');
    for (const auto& connection : of_caf->connections()) {
      of_caf->write(connection, more_than_fits.size(), more_than_fits.data());
      of_caf->flush(connection);
    }
    written.set_value(of_caf->connections().size());
  });
  // CAF ends those that say nothing.
  REQUIRE(written.get_future().get() == 1);
  // If nothing else does, the end of the peer lets it end.
  std::promise<void> ended;
  bool in_time = false;
  std::thread patience{[&] {
    in_time = ended.get_future().wait_for(20s) == std::future_status::ready;
    peer.reset();
  }};
  process.reset();
  ended.set_value();
  patience.join();
  CHECK(in_time);
}

TEST_CASE("who stops a redial waits for what it calls, and it calls nobody afterwards", "[wire]") {
  LinkedProcess process;
  const Error error{Errc::unavailable, "no answer"};
  std::promise<void> begun;
  std::atomic<int> ended{0};
  const auto copies = std::make_shared<int>();
  const auto redial = redial_to(process, process, [&begun, &ended, copies](const Result<caf::strong_actor_ptr>&) {
    begun.set_value();
    // Until the redial, which is being stopped, has dropped its own copy of this function.
    while (copies.use_count() > 2)
      std::this_thread::yield();
    ++ended;
  });
  std::thread teller{[&] { redial->again(error); }};
  begun.get_future().wait();
  redial->stop();
  CHECK(ended == 1);
  teller.join();
  redial->again(error);
  redial->stop();
  CHECK(ended == 1);
}

TEST_CASE("a redial with several addresses goes on to the next one, also when it is told that one does not serve",
          "[wire]") {
  LinkedProcess process;
  LinkedProcess first;
  LinkedProcess second;
  const auto nobody = [] {
    LinkedProcess gone;
    return gone.address();
  }();
  std::mutex mutex;
  std::vector<std::pair<bool, caf::node_id>> seen;
  const auto redial =
      std::make_shared<Redial>(process.links(), std::vector{nobody, first.address(), second.address()},
                               [&](const Result<caf::strong_actor_ptr>& handle) {
                                 const std::lock_guard lock{mutex};
                                 seen.emplace_back(handle.has_value(), handle ? (*handle)->node() : caf::node_id{});
                               });
  const auto connected_to = [&](const LinkedProcess& other) {
    return eventually([&] {
      const std::lock_guard lock{mutex};
      return !seen.empty() && seen.back() == std::pair{true, other.actor()->node()};
    });
  };
  redial->start();
  CHECK(connected_to(first));
  CHECK_FALSE(seen.front().first);
  redial->again(Error{Errc::unavailable, "it stands by"});
  CHECK(connected_to(second));
  redial->again(Error{Errc::unavailable, "it stands by, too"});
  CHECK(connected_to(first));
  redial->stop();
}

TEST_CASE("a redial may be stopped by what it calls, and by what that calls", "[wire]") {
  LinkedProcess process;
  LinkedProcess other;
  std::shared_ptr<Redial> redial;
  std::atomic<int> told{0};
  std::promise<void> stopped;
  redial = redial_to(process, other, [&](const Result<caf::strong_actor_ptr>& handle) {
    ++told;
    if (handle)
      return redial->again(Error{Errc::unavailable, "no answer"});
    redial->stop();
    stopped.set_value();
  });
  redial->start();
  stopped.get_future().wait();
  redial->again(Error{Errc::unavailable, "no answer"});
  CHECK(told == 2);
}

TEST_CASE("who loses a connection and is told so dials once", "[wire]") {
  LinkedProcess process;
  LinkedProcess other;
  std::atomic<int> connected{0};
  std::atomic<int> lost{0};
  const auto redial =
      redial_to(process, other, [&](const Result<caf::strong_actor_ptr>& handle) { ++(handle ? connected : lost); });
  redial->start();
  REQUIRE(eventually([&] { return connected == 1; }));
  // Two at once, as of a deadline and of the connection's end.
  redial->again(Error{Errc::unavailable, "it stands by"});
  redial->again(Error{Errc::unavailable, "it stands by"});
  CHECK(lost == 1);
  REQUIRE(eventually([&] { return connected == 2; }));
  redial->stop();
  CHECK(lost == 1);
}

TEST_CASE("the end of a peer that was connected before, and was of no use, is noticed", "[wire]") {
  LinkedProcess process;
  auto other = std::make_unique<LinkedProcess>();
  std::atomic<int> connected{0};
  std::atomic<int> lost{0};
  const auto redial =
      redial_to(process, *other, [&](const Result<caf::strong_actor_ptr>& handle) { ++(handle ? connected : lost); });
  redial->start();
  REQUIRE(eventually([&] { return connected == 1; }));
  redial->again(Error{Errc::unavailable, "it stands by"});
  REQUIRE(eventually([&] { return connected == 2; }));
  other = nullptr;
  CHECK(eventually([&] { return lost >= 2; }));
  redial->stop();
}

#endif

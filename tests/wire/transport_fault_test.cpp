// Peers that end, stand still or come back as somebody else.
#include "transport_fixture.hpp"

#include <gpuactors/wire/transport/channel.hpp>

#include <support/catch.hpp>

#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

/// Each gives up soon where its test waits for it, and late elsewhere.
constexpr milliseconds soon{300};
constexpr milliseconds late{30'000};
constexpr BulkTimes quick{soon, soon, soon};
constexpr BulkTimes quick_midway{late, milliseconds{3'000}, late};
constexpr BulkTimes quick_to_idle{late, late, soon};

} // namespace

TEST_CASE_METHOD(TransportFixture, "a region comes from another process, whichever way", "[transport]") {
  const auto files = certificates();
  for (const auto way : all_ways) {
    const Peer peer{way, "whole", 3 * mib, way == Way::tls ? &files : nullptr};
    const auto fetched = client(way)->fetch(peer.address(), 1, 3 * mib, never);
    INFO(name_of(way) << (fetched ? "" : to_string(fetched.error())));
    REQUIRE(fetched.has_value());
    CHECK(fetched->data()[0] == std::byte{'p'});
    CHECK(fetched->data()[3 * mib - 1] == std::byte{'p'});
  }
}

TEST_CASE_METHOD(TransportFixture, "a process that is killed midway fails the fetch at once, with how far it came",
                 "[transport]") {
  Peer peer{Way::tcp, "half", 8 * mib};
  const auto fetches = client(Way::tcp);
  auto outcome = Result<SharedRegion>{SharedRegion{}};
  std::thread thread{[&] { outcome = fetches->fetch(peer.address(), 1, 8 * mib, never); }};
  CHECK(peer.line() == "half");
  peer.kill();
  thread.join();
  const auto text = why_not(outcome, Errc::worker_died);
  CHECK_THAT(text, Contains("of 8388608 bytes had come"));
  CHECK_THAT(text, Contains(to_string(peer.address())));
  // What had come is free again: it is kept for the next one.
  CHECK(pool->warm_bytes() >= 8 * mib);
}

TEST_CASE_METHOD(TransportFixture, "a process that has ended is reported as dead, whichever way, with kept connections",
                 "[transport]") {
  const auto files = certificates();
  for (const auto way : all_ways) {
    INFO(name_of(way));
    Peer peer{way, "whole", 10, way == Way::tls ? &files : nullptr};
    const auto fetches = client(way);
    REQUIRE(fetches->fetch(peer.address(), 1, 10, never).has_value());
    REQUIRE(fetches->idle_connections() == 1);
    peer.kill();
    why_not(fetches->fetch(peer.address(), 1, 10, never), Errc::worker_died);
    CHECK(fetches->idle_connections() == 0);
  }
}

TEST_CASE_METHOD(TransportFixture, "what was mapped stays readable when its owner is killed", "[transport]") {
  Peer peer{Way::local, "whole", mib};
  const auto fetched = client(Way::local)->fetch(peer.address(), 1, mib, never);
  REQUIRE(fetched.has_value());
  peer.kill();
  CHECK(fetched->data()[mib - 1] == std::byte{'p'});
}

TEST_CASE_METHOD(TransportFixture, "memory of an owner that was killed is let go although its mapping was kept",
                 "[transport]") {
  const auto is_mapped = [] { return text_of("/proc/self/maps").find("/memfd:gpuactors") != std::string::npos; };
  Peer peer{Way::local, "whole", mib};
  const auto fetches = client(Way::local);
  REQUIRE(fetches->fetch(peer.address(), 1, mib, never).has_value()); // and let go at once
  CHECK(is_mapped());
  peer.kill();
  CHECK(eventually([&] { return !is_mapped(); }));
}

TEST_CASE_METHOD(TransportFixture, "memory that another process maps is not used anew, and is once that was killed",
                 "[transport]") {
  const auto serves = server(Way::local);
  REQUIRE(serves->add(1, filled(mib)).has_value());
  {
    const Peer living{serves->address(), mib};
    CHECK(serves->remove(1));
    CHECK(pool->warm_bytes() == 0);
  }
  REQUIRE(serves->add(1, filled(mib)).has_value());
  Peer killed{serves->address(), mib};
  killed.kill();
  CHECK(serves->remove(1));
  CHECK(pool->warm_bytes() == mib);
}

TEST_CASE_METHOD(TransportFixture, "a frozen process costs the deadline, or the time without progress", "[transport]") {
  const auto files = certificates();
  for (const auto way : all_ways) {
    INFO(name_of(way));
    Peer peer{way, "whole", mib, way == Way::tls ? &files : nullptr};
    const auto fetches = client(way, quick);
    peer.stop();
    CHECK_THAT(
        why_not(fetches->fetch(peer.address(), 1, mib, Clock::now() + milliseconds{100}), Errc::deadline_exceeded),
        Contains("0 of 1048576 bytes had come"));
    CHECK_THAT(why_not(fetches->fetch(peer.address(), 1, mib, never), Errc::unavailable), Contains("stands still"));
    peer.go_on();
    CHECK(client(way)->fetch(peer.address(), 1, mib, never).has_value());
  }
}

TEST_CASE_METHOD(TransportFixture, "a process that freezes midway costs the time without progress", "[transport]") {
  const Peer peer{Way::tcp, "half", mib};
  const auto text = why_not(client(Way::tcp, quick_midway)->fetch(peer.address(), 1, mib, never), Errc::unavailable);
  CHECK_THAT(text, Contains("524288 of 1048576 bytes had come"));
}

TEST_CASE_METHOD(TransportFixture, "a client that stops reading is let go, and so is the memory", "[transport]") {
  const auto stop = std::move(*transport::Signal::make());
  const auto serves = server(Way::tcp, quick_midway);
  const auto own = RegionPool::create();
  REQUIRE(serves->add(1, std::move(*own->make(64 * mib, RegionReaders::process)).seal()).has_value());
  transport::Channel channel{std::move(*transport::connect_tcp(serves->address().endpoint, stop, never)), stop};
  REQUIRE(channel.write_frame(encode(transport::Request{serves->address().server, 1, 64 * mib, false}), never));
  transport::Frame frame;
  REQUIRE(channel.read_frame(frame, never));
  CHECK(serves->remove(1));
  CHECK(eventually([&] { return serves->connections() == 0 && own->warm_bytes() == 64 * mib; }));
}

TEST_CASE_METHOD(TransportFixture, "a connection that was closed meanwhile is replaced without a word", "[transport]") {
  for (const auto way : all_ways) {
    const auto serves = server(way, quick_to_idle);
    const auto fetches = client(way);
    REQUIRE(serves->add(1, filled(10)).has_value());
    REQUIRE(fetches->fetch(serves->address(), 1, 10, never).has_value());
    CHECK(fetches->idle_connections() == 1);
    CHECK(eventually([&] { return serves->connections() == 0; })); // its idle time is over
    CHECK(fetches->fetch(serves->address(), 1, 10, never).has_value());
    CHECK(fetches->idle_connections() == 1);
  }
}

TEST_CASE_METHOD(TransportFixture, "a client closes connections that it has not used for long", "[transport]") {
  const auto serves = server(Way::local);
  const auto other = server(Way::local);
  const auto fetches = client(Way::local, {milliseconds{5'000}, milliseconds{5'000}, milliseconds{1}});
  REQUIRE(serves->add(1, filled(10)).has_value());
  REQUIRE(fetches->fetch(serves->address(), 1, 10, never).has_value());
  CHECK(eventually([&] { // each fetch drops what is old
    return fetches->fetch(other->address(), 1, 10, never).error().code() == Errc::not_found
           && serves->connections() == 0;
  }));
}

TEST_CASE_METHOD(TransportFixture, "another process that got the port is not taken for the one that had it",
                 "[transport]") {
  const auto serves = server(Way::tcp);
  REQUIRE(serves->add(1, filled(10)).has_value());
  auto former = serves->address();
  former.server ^= 1;
  CHECK_THAT(why_not(client(Way::tcp)->fetch(former, 1, 10, never), Errc::worker_died), Contains("another one"));
}

TEST_CASE_METHOD(TransportFixture, "a server that cannot be reached is reported with its address", "[transport]") {
  auto elsewhere = server(Way::local)->address();
  elsewhere.machine = "elsewhere";
  CHECK_THAT(why_not(client(Way::tcp)->fetch(elsewhere, 1, 10, never), Errc::unavailable),
             Contains("only processes of its own user, machine"));
  BulkAddress unknown{1, "m", "", {"no-such-host.invalid", 1}, false};
  CHECK_THAT(why_not(client(Way::tcp)->fetch(unknown, 1, 10, never), Errc::unavailable), Contains("is not known"));
}

TEST_CASE_METHOD(TransportFixture, "fetches that wait for their turn keep their deadline", "[transport]") {
  Peer peer{Way::local, "whole", 10};
  const auto fetches = client(Way::local, {milliseconds{60'000}, milliseconds{60'000}, milliseconds{60'000}});
  peer.stop();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < limits::bulk_streams; ++i)
    threads.emplace_back([&] { (void)fetches->fetch(peer.address(), 1, 10, never); });
  // Sooner or later all turns are taken, and this one waits for one.
  CHECK(eventually([&] {
    const auto late = fetches->fetch(peer.address(), 1, 10, Clock::now() + milliseconds{20});
    return late.error().code() == Errc::deadline_exceeded
           && late.error().message().find("while other fetches ran") != std::string::npos;
  }));
  peer.go_on();
  for (auto& thread : threads)
    thread.join();
}

#include "transport_fixture.hpp"

#include <gpuactors/wire/transport/channel.hpp>

#include <support/catch.hpp>

#include <atomic>
#include <cstring>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;

TEST_CASE_METHOD(TransportFixture, "regions of all sizes arrive as they were", "[transport]") {
  for (const auto way : all_ways) {
    const auto serves = server(way);
    const auto fetches = client(way);
    std::uint64_t id = 0;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4'095}, limits::region_mappable_from, 5 * mib + 1, 64 * mib}) {
      INFO(name_of(way) << ", " << bytes << " bytes");
      REQUIRE(serves->add(++id, filled(bytes, 3)).has_value());
      const auto fetched = fetches->fetch(serves->address(), id, bytes, never);
      INFO((fetched ? "" : to_string(fetched.error())));
      REQUIRE(fetched.has_value());
      CHECK(is_filled(*fetched, bytes, 3));
    }
    CHECK(fetches->idle_connections() == 1);
    CHECK(serves->connections() == 1);
  }
}

TEST_CASE_METHOD(TransportFixture, "on one machine a region is mapped, not copied", "[transport]") {
  const auto serves = server(Way::local);
  const auto fetches = client(Way::local);
  // Were it copied, it would need 3 GiB: its pages exist only where something was written.
  const std::size_t bytes = (3ULL << 30) + 5;
  {
    auto draft = pool->make(bytes, RegionReaders::machine);
    REQUIRE(draft.has_value());
    draft->data()[bytes - 1] = std::byte{'x'};
    REQUIRE(serves->add(1, std::move(*draft).seal()).has_value());
  }
  const auto fetched = fetches->fetch(serves->address(), 1, bytes, never);
  REQUIRE(fetched.has_value());
  CHECK(fetched->size() == bytes);
  CHECK(fetched->data()[bytes - 1] == std::byte{'x'});
  CHECK(serves->remove(1));
  CHECK(fetched->data()[bytes - 1] == std::byte{'x'});
}

TEST_CASE_METHOD(TransportFixture, "a server with a TCP port serves its own machine through the Unix socket",
                 "[transport]") {
  BulkServerOptions options;
  options.listening.host = "127.0.0.1";
  options.certificates = certificates();
  const auto serves = std::move(*BulkServer::start(options));
  CHECK(serves->address().endpoint.port != 0);
  REQUIRE(serves->add(1, filled(mib)).has_value());
  // It has no certificates, and needs none.
  CHECK(is_filled(*client(Way::local)->fetch(serves->address(), 1, mib, never), mib));
  // From another machine it would be TLS.
  auto elsewhere = serves->address();
  elsewhere.machine = "elsewhere";
  CHECK(is_filled(*client(Way::tls)->fetch(elsewhere, 1, mib, never), mib));
}

TEST_CASE_METHOD(TransportFixture, "what is not served is not found, and the connection goes on", "[transport]") {
  for (const auto way : all_ways) {
    const auto serves = server(way);
    const auto fetches = client(way);
    const auto missing = fetches->fetch(serves->address(), 9, 10, never);
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code() == Errc::not_found);
    REQUIRE(serves->add(9, filled(10)).has_value());
    CHECK(fetches->fetch(serves->address(), 9, 11, never).error().code() == Errc::invalid_argument);
    CHECK(is_filled(*fetches->fetch(serves->address(), 9, 10, never), 10));
    CHECK(serves->remove(9));
    CHECK_FALSE(serves->remove(9));
    CHECK(fetches->fetch(serves->address(), 9, 10, never).error().code() == Errc::not_found);
    CHECK(serves->connections() == 1);
  }
}

TEST_CASE_METHOD(TransportFixture, "an id is served once, and never 0", "[transport]") {
  const auto serves = server(Way::local);
  CHECK(serves->add(1, filled(1)).has_value());
  CHECK(serves->add(1, filled(1)).error().code() == Errc::already_exists);
  CHECK(serves->add(0, filled(1)).error().code() == Errc::invalid_argument);
  CHECK(serves->add(2, {}).error().code() == Errc::invalid_argument);
}

TEST_CASE_METHOD(TransportFixture, "many threads and several clients fetch at once", "[transport]") {
  for (const auto way : all_ways) {
    const auto serves = server(way);
    constexpr unsigned regions = 5;
    for (unsigned id = 1; id <= regions; ++id)
      REQUIRE(serves->add(id, filled(100'000 * id, id)).has_value());
    const auto first = client(way);
    const auto second = client(way);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 24; ++t)
      threads.emplace_back([&, t] {
        for (unsigned i = 0; i < 10; ++i) {
          const auto id = (t + i) % regions + 1;
          const auto fetched = (t % 2 == 0 ? first : second)->fetch(serves->address(), id, 100'000 * id, never);
          if (!fetched || !is_filled(*fetched, 100'000 * id, id))
            ++wrong;
        }
      });
    for (auto& thread : threads)
      thread.join();
    CHECK(wrong == 0);
    CHECK(first->idle_connections() <= limits::bulk_streams);
    CHECK(serves->connections() <= 2 * limits::bulk_streams);
  }
}

TEST_CASE_METHOD(TransportFixture, "more clients than a server has room for take turns", "[transport]") {
  const auto serves = server(Way::local);
  REQUIRE(serves->add(1, filled(10)).has_value());
  std::vector<std::unique_ptr<BulkClient>> clients;
  for (std::size_t i = 0; i < limits::bulk_connections + 20; ++i) {
    clients.push_back(client(Way::local));
    REQUIRE(clients.back()->fetch(serves->address(), 1, 10, never).has_value());
  }
  CHECK(serves->connections() <= limits::bulk_connections);
  // The first one's connection made room for a later one: it gets another.
  CHECK(clients.front()->fetch(serves->address(), 1, 10, never).has_value());
}

TEST_CASE_METHOD(TransportFixture,
                 "a client waits for a place at a server that has none, as long as its deadline allows",
                 "[transport]") {
  constexpr std::chrono::milliseconds soon{200};
  constexpr std::chrono::milliseconds late{60'000};
  constexpr std::chrono::milliseconds patient{2'000};
  const auto stop = std::move(*transport::Signal::make());
  const auto serves = server(Way::tcp, {soon, late, late});
  const auto fetches = client(Way::tcp, {patient, patient, late});
  constexpr std::size_t bytes = 64 * mib; // more than the sockets hold
  REQUIRE(serves->add(1, std::move(*pool->make(bytes, RegionReaders::process)).seal()).has_value());
  REQUIRE(serves->add(2, filled(10)).has_value());
  std::vector<transport::Channel> readers;
  for (std::size_t i = 0; i < limits::bulk_connections; ++i) {
    auto& reader =
        readers.emplace_back(std::move(*transport::connect_tcp(serves->address().endpoint, stop, never)), stop);
    REQUIRE(reader.write_frame(encode(transport::Request{serves->address().server, 1, bytes, false}), never));
    transport::Frame frame;
    REQUIRE(reader.read_frame(frame, never));
  }
  // Longer than it would wait for one that stands still.
  const auto outcome = fetches->fetch(serves->address(), 2, 10, Clock::now() + 2 * patient);
  CHECK_THAT(why_not(outcome, Errc::deadline_exceeded), Catch::Matchers::Contains("has no place"));
  readers.pop_back();
  CHECK(fetches->fetch(serves->address(), 2, 10, never).has_value());
}

TEST_CASE_METHOD(TransportFixture, "a thousand fetches leave no descriptor and no memory behind", "[transport]") {
  for (const auto way : all_ways) {
    const auto before = open_descriptors();
    {
      const auto serves = server(way);
      const auto fetches = client(way);
      REQUIRE(serves->add(1, filled(limits::region_mappable_from)).has_value());
      for (int i = 0; i < 1'000; ++i)
        REQUIRE(fetches->fetch(serves->address(), 1, limits::region_mappable_from, never).has_value());
    }
    pool->trim();
    INFO(name_of(way));
    CHECK(open_descriptors() == before);
  }
}

TEST_CASE_METHOD(TransportFixture,
                 "a region that is removed while it is fetched arrives whole, then its memory is free", "[transport]") {
  const auto stop = std::move(*transport::Signal::make());
  const auto serves = server(Way::tcp);
  const auto own = RegionPool::create();
  const std::size_t bytes = 64 * mib; // more than the sockets hold
  REQUIRE(serves->add(1, std::move(*own->make(bytes, RegionReaders::process)).seal()).has_value());
  transport::Channel channel{std::move(*transport::connect_tcp(serves->address().endpoint, stop, never)), stop};
  REQUIRE(channel.write_frame(encode(transport::Request{serves->address().server, 1, bytes, false}), never));
  transport::Frame frame;
  REQUIRE(channel.read_frame(frame, never));
  REQUIRE(transport::decode_answer(frame)->status == transport::Status::streamed);
  CHECK(serves->remove(1));
  CHECK(own->warm_bytes() == 0); // the transfer keeps it
  std::vector<std::byte> rest(bytes);
  std::size_t done = 0;
  CHECK(channel.read_all(rest.data(), bytes, Duration::max(), never, done).has_value());
  CHECK(eventually([&] { return own->warm_bytes() >= bytes; }));
}

TEST_CASE_METHOD(TransportFixture, "closing a client ends its fetches, closing a server ends its transfers",
                 "[transport]") {
  Peer silent{Way::tcp, "half", mib};
  const auto fetches = client(Way::tcp);
  auto outcome = Result<SharedRegion>{SharedRegion{}};
  std::thread thread{[&] { outcome = fetches->fetch(silent.address(), 1, mib, never); }};
  CHECK(silent.line() == "half");
  fetches->close();
  thread.join();
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code() == Errc::cancelled);
  CHECK(fetches->fetch(silent.address(), 1, mib, never).error().code() == Errc::cancelled);

  const auto stop = std::move(*transport::Signal::make());
  const auto serves = server(Way::tcp);
  REQUIRE(serves->add(1, std::move(*pool->make(64 * mib, RegionReaders::process)).seal()).has_value());
  transport::Channel channel{std::move(*transport::connect_tcp(serves->address().endpoint, stop, never)), stop};
  REQUIRE(channel.write_frame(encode(transport::Request{serves->address().server, 1, 64 * mib, false}), never));
  transport::Frame frame;
  REQUIRE(channel.read_frame(frame, never)); // it is sending, and nobody reads
  serves->close();
  CHECK(serves->connections() == 0);
  CHECK(serves->add(2, filled(1)).error().code() == Errc::unavailable);
}

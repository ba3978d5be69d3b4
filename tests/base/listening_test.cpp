#include <gpuactors/base/listening.hpp>

#include <catch2/catch.hpp>

#include <set>
#include <vector>

using namespace gpuactors;
using Catch::Matchers::Contains;

TEST_CASE("ports are written as a range or as one", "[listening]") {
  CHECK(*parse_ports("7720-7799") == PortRange{7720, 7799});
  CHECK(*parse_ports("65535") == PortRange{65535, 65535});
  CHECK(to_string(*parse_ports("7720-7799")) == "7720-7799");
  CHECK(to_string(PortRange{}) == "any");
  for (const auto* text : {"", "-", "0-10", "1-", "-5", "1-65536", "a-b", "1-2-3", " 1-2", "7720..7799"}) {
    INFO(text);
    REQUIRE_FALSE(parse_ports(text));
    CHECK(parse_ports(text).error().code() == Errc::invalid_argument);
    CHECK_THAT(parse_ports(text).error().message(), Contains("such as 7720-7799"));
  }
  CHECK_THAT(parse_ports("7799-7720").error().message(), Contains("7720-7799 would be right"));
}

TEST_CASE("a process listens at the address that it was told to bind, else at that by which others reach it",
          "[listening]") {
  CHECK(Listening{.host = "10.0.0.3"}.local() == "10.0.0.3");
  CHECK(Listening{.host = "10.0.0.3", .bind = "0.0.0.0"}.local() == "0.0.0.0");
}

TEST_CASE("each port of a range is tried once, from any of them on", "[listening]") {
  for (std::uint64_t begin = 0; begin < 9; ++begin) {
    std::vector<std::uint16_t> tried;
    const auto got = listen_in({65533, 65535}, begin, [&](std::uint16_t port) -> Result<std::uint16_t> {
      tried.push_back(port);
      return fail(Errc::unavailable, "taken");
    });
    REQUIRE_FALSE(got);
    CHECK(got.error().code() == Errc::unavailable);
    CHECK_THAT(got.error().message(), Contains("none of the 3 ports 65533-65535 is free (taken)"));
    CHECK(tried.front() == 65533 + begin % 3);
    CHECK(tried.size() == 3);
    CHECK(std::set<std::uint16_t>{tried.begin(), tried.end()} == std::set<std::uint16_t>{65533, 65534, 65535});
  }
}

TEST_CASE("the first port that is free is taken", "[listening]") {
  const auto got = listen_in({100, 104}, 3, [](std::uint16_t port) -> Result<std::uint16_t> {
    if (port != 101)
      return fail(Errc::unavailable, "taken");
    return port;
  });
  CHECK(*got == 101);
}

TEST_CASE("an error that no other port would mend ends the search", "[listening]") {
  int tried = 0;
  const auto got = listen_in({100, 200}, 0, [&](std::uint16_t) -> Result<std::uint16_t> {
    ++tried;
    return fail(Errc::invalid_argument, "no address of this machine");
  });
  CHECK(got.error().code() == Errc::invalid_argument);
  CHECK(tried == 1);
}

TEST_CASE("without a range the system chooses", "[listening]") {
  const auto got = listen_in({}, 7, [](std::uint16_t port) -> Result<std::uint16_t> {
    CHECK(port == 0);
    return std::uint16_t{40'000};
  });
  CHECK(*got == 40'000);
}

// Addresses as they are typed, and which hosts count as this machine.
#include <gpuactors/base/endpoint.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

TEST_CASE("an address is a host and a port, and an IPv6 address stands in brackets") {
  const auto parse = [](std::string_view text) {
    const auto endpoint = parse_endpoint(text);
    REQUIRE(endpoint.has_value());
    CHECK(to_string(*endpoint) == text);
    return *endpoint;
  };
  CHECK(parse("broker.example.org:7711").port == 7'711);
  CHECK(parse("[fe80::1]:65535").host == "fe80::1");
  CHECK(parse("127.0.0.1:0").port == 0);
}

TEST_CASE("a wrong address is refused with what is wrong, and what would be right") {
  const auto why = [](std::string_view text) {
    const auto endpoint = parse_endpoint(text);
    REQUIRE_FALSE(endpoint.has_value());
    CHECK(endpoint.error().code() == Errc::invalid_argument);
    CHECK(endpoint.error().message().find("127.0.0.1:7711 would be right") != std::string::npos);
    return endpoint.error().message();
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(why("broker"), Contains("the port is missing"));
  CHECK_THAT(why(""), Contains("the port is missing"));
  CHECK_THAT(why(":7711"), Contains("the host is missing"));
  CHECK_THAT(why("[]:7711"), Contains("the host is missing"));
  CHECK_THAT(why("fe80::1:7711"), Contains("brackets"));
  for (const auto* port : {"", "65536", "-1", "77x", " 7711", "+7711"})
    CHECK_THAT(why(std::string{"host:"} + port), Contains("0 to 65535"));
}

TEST_CASE("loopback is localhost and addresses, not names that begin like one") {
  CHECK(is_loopback("localhost"));
  CHECK(is_loopback("::1"));
  CHECK(is_loopback("127.0.0.1"));
  CHECK(is_loopback("127.8.9.10"));
  CHECK_FALSE(is_loopback("127.example.org"));
  CHECK_FALSE(is_loopback("127.0.0.1.example.org"));
  CHECK_FALSE(is_loopback("10.0.0.1"));
  CHECK_FALSE(is_loopback(""));
}

TEST_CASE("several addresses stand with commas between, each of them once", "[endpoint]") {
  const auto several = parse_endpoints("10.0.0.1:7711,[::1]:7712,broker:0");
  REQUIRE(several);
  CHECK(*several == std::vector<Endpoint>{{"10.0.0.1", 7711}, {"::1", 7712}, {"broker", 0}});
  CHECK(to_string(*several) == "10.0.0.1:7711,[::1]:7712,broker:0");
  CHECK(parse_endpoints("a:1")->size() == 1);
  for (const auto* bad : {"", "a:1,", ",a:1", "a:1,b", "a:1,b:2,a:1"}) {
    INFO(bad);
    REQUIRE_FALSE(parse_endpoints(bad));
    CHECK(parse_endpoints(bad).error().code() == Errc::invalid_argument);
  }
  CHECK(parse_endpoints("a:1,b:2,a:1").error().message() == "a:1 is in \"a:1,b:2,a:1\" twice");
}

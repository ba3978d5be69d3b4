// Which hosts count as this machine.
#include <gpuactors/base/endpoint.hpp>

#include <support/catch.hpp>

using gpuactors::is_loopback;

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

#include <gpuactors/wire/transport.hpp>
#include <gpuactors/wire/transport/frames.hpp>

#include <support/catch.hpp>

#include <random>

using namespace gpuactors;
using namespace gpuactors::transport;

namespace {

BulkAddress sample() {
  return {0x1234'5678'9abc'def0, "0a1b-4026531840-1000", "gpuactors-00ff", {"node1.example", 4711}, true};
}

} // namespace

TEST_CASE("an address of bulk data survives being text", "[transport]") {
  auto address = sample();
  CHECK(to_string(address) == "tls://node1.example:4711/123456789abcdef0/0a1b-4026531840-1000/gpuactors-00ff");
  CHECK(parse_bulk_address(to_string(address)).value() == address);
  address.tls = false;
  CHECK(parse_bulk_address(to_string(address)).value() == address);
  address.endpoint.host = "2001:db8::1";
  CHECK(to_string(address).rfind("tcp://[2001:db8::1]:4711/", 0) == 0);
  CHECK(parse_bulk_address(to_string(address)).value() == address);
  address.socket.clear();
  CHECK(parse_bulk_address(to_string(address)).value() == address);
  const BulkAddress local{7, "m", "s", {}, true};
  CHECK(to_string(local) == "local:///7/m/s");
  CHECK(parse_bulk_address(to_string(local)).value() == local);
}

TEST_CASE("what is no address of bulk data is refused in one line", "[transport]") {
  for (const auto* text : {"",
                           "tls",
                           "tls://",
                           "http://a:1/1/m/s",
                           "tls://a:1/1/m",
                           "tls://a:1/1/m/s/t",
                           "tls://a/1/m/s",
                           "tls://a:0/1/m/s",
                           "tls://a:65536/1/m/s",
                           "tls://a:-1/1/m/s",
                           "tls://:1/1/m/s",
                           "tls://a b:1/1/m/s",
                           "tls://::1:1/1/m/s",
                           "tls://[::1:1/1/m/s",
                           "tls://a:1/x/m/s",
                           "tls://a:1//m/s",
                           "tls://a:1/11112222333344445/m/s",
                           "tls://a:1/1/m m/s",
                           "tls://a:1/1/m/s\n",
                           "local://a:1/1/m/s"}) {
    INFO(text);
    const auto refused = parse_bulk_address(text);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == Errc::invalid_argument);
  }
  CHECK_FALSE(parse_bulk_address("tls://a:1/1/m/" + std::string(1'000, 's')).has_value());
  CHECK_FALSE(parse_bulk_address("tls://" + std::string(400, 'a') + ":1/1/m/s").has_value());
}

TEST_CASE("frames survive being bytes, in an order that no machine changes", "[transport]") {
  const Request request{0x1122334455667788, 0xfedcba9876543210, (1ULL << 40) + 3, true};
  const auto bytes = encode(request);
  CHECK(std::to_integer<int>(bytes[0]) == 'G');
  CHECK(std::to_integer<int>(bytes[4]) == 1);
  CHECK(std::to_integer<int>(bytes[8]) == 0x10);
  CHECK(std::to_integer<int>(bytes[15]) == 0xfe);
  CHECK(std::to_integer<int>(bytes[21]) == 1);
  CHECK(std::to_integer<int>(bytes[24]) == 0x88);
  const auto read = decode_request(bytes);
  REQUIRE(read.has_value());
  CHECK(read->server == request.server);
  CHECK(read->id == request.id);
  CHECK(read->bytes == request.bytes);
  CHECK(read->maps);
  const auto answer = decode_answer(encode(Answer{Status::other_size, 5, 3ULL << 32}));
  REQUIRE(answer.has_value());
  CHECK(answer->status == Status::other_size);
  CHECK(answer->bytes == 3ULL << 32);
  CHECK_FALSE(transport::decode_answer(bytes).has_value());
  CHECK_FALSE(decode_request(encode(Answer{})).has_value());
}

TEST_CASE("a random frame is no request and no answer", "[transport]") {
  std::mt19937 random{4711};
  for (int i = 0; i < 10'000; ++i) {
    Frame frame;
    for (auto& byte : frame)
      byte = static_cast<std::byte>(random());
    CHECK_FALSE(decode_request(frame).has_value());
    CHECK_FALSE(transport::decode_answer(frame).has_value());
  }
}

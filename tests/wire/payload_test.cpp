#include "system.hpp"

#include <gpuactors/base/limits.hpp>

#include <support/catch.hpp>
#include <support/messages.hpp>

#include <google/protobuf/descriptor.pb.h>

using namespace std::chrono_literals;
using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// What arrives in another process.
template <class T>
T travelled(const T& sent) {
  System system;
  caf_version::Bytes bytes;
  REQUIRE(caf_version::encode(system.get(), sent, bytes));
  T received;
  REQUIRE(caf_version::decode(system.get(), bytes, received));
  return received;
}

} // namespace

TEST_CASE("in one process the message itself is shared", "[wire]") {
  const auto payload = Payload::of(number(4));
  const auto copy = payload; // NOLINT(performance-unnecessary-copy-initialization): that is what is tested
  CHECK(copy.live_as<Number>() == payload.live_as<Number>());
  CHECK(payload.live_as<Text>() == nullptr);
  CHECK((*copy.share_as<Number>())->value() == 4);
}

TEST_CASE("a message is moved out when nobody else has it, and copied otherwise", "[wire]") {
  auto payload = Payload::of(number(4));
  const auto kept = payload;
  const auto taken = std::move(payload).take_as<Number>();
  REQUIRE(taken.has_value());
  CHECK(taken->value() == 4);
  CHECK((*kept.share_as<Number>())->value() == 4);
}

TEST_CASE("a message survives the wire, and is parsed by who reads it", "[wire]") {
  const auto received = travelled(Payload::of(number(2.5)));
  CHECK(received.type_name() == "gpuactors.test.Number");
  CHECK(received.live_as<Number>() == nullptr);
  CHECK((*received.share_as<Number>())->value() == 2.5);
}

TEST_CASE("a message of another type, or bytes that are none, are refused by name", "[wire]") {
  const auto received = travelled(Payload::of(number(2.5)));
  const auto other = received.share_as<Text>();
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().code() == Errc::invalid_argument);
  CHECK(other.error().message().find("gpuactors.test.Number") != std::string::npos);
  const auto broken = Payload::from_bytes("gpuactors.test.Number", "\xff").share_as<Number>();
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().code() == Errc::invalid_argument);
}

TEST_CASE("a message without a field that it must have is refused by its name, and ends no process", "[wire]") {
  google::protobuf::UninterpretedOption::NamePart part;
  part.set_is_extension(true);
  const auto payload = Payload::of(part);
  const auto refused = payload.check_size();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("name_part") != std::string::npos);
  CHECK_FALSE(payload.encoded().has_value());
  std::string type;
  std::string bytes;
  CHECK_FALSE(payload.write_to(type, bytes));
  part.set_name_part("x");
  CHECK(travelled(Payload::of(part)).share_as<google::protobuf::UninterpretedOption::NamePart>().has_value());
}

TEST_CASE("a message that is too large is refused, naming put", "[wire]") {
  Text text;
  text.set_text(std::string(limits::payload_bytes + 1, 'x'));
  const auto refused = Payload::of(std::move(text)).check_size();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("put") != std::string::npos);
}

TEST_CASE("a call travels with its age; one that does not say when it was made has none", "[wire]") {
  Call call;
  call.payload = Payload::of(number(1));
  CHECK(travelled(call).made == TimePoint{});
  call.made = Clock::now() - 3s;
  const auto age = Clock::now() - travelled(call).made;
  CHECK(age >= 3s);
  CHECK(age < 30s);
  // From a process whose clock runs for longer than ours.
  call.made = TimePoint{} - Clock::now().time_since_epoch();
  CHECK(travelled(call).made == TimePoint{});
}

TEST_CASE("a call travels with its name, its message, what time remains, its id and its kind", "[wire]") {
  Call call;
  call.method = "step";
  call.payload = Payload::of(number(1));
  call.id = CallId{77};
  call.stream = true;
  const auto received = travelled(call);
  CHECK(received.method == "step");
  CHECK((*received.payload.share_as<Number>())->value() == 1);
  CHECK(received.id == CallId{77});
  CHECK(received.stream);
  CHECK(received.deadline == never);

  call.deadline = Clock::now() + std::chrono::hours{1};
  const auto timed = travelled(call);
  CHECK(timed.deadline >= call.deadline);
  CHECK(timed.deadline < call.deadline + std::chrono::minutes{30});
}

TEST_CASE("a call travels with what it is traced for, and its method's name stays what it was", "[wire]") {
  Call call;
  call.method = "step";
  call.payload = Payload::of(number(1));
  CHECK_FALSE(travelled(call).trace.valid());
  call.trace = {1, ~std::uint64_t{0}, 3, true};
  const auto received = travelled(call);
  CHECK(received.method == "step");
  CHECK(received.trace == call.trace);
  call.trace.sampled = false;
  CHECK(travelled(call).trace == call.trace);
}

TEST_CASE("what stands behind the name of a call's method and is no trace counts as none", "[wire]") {
  Call call;
  call.method = std::string{"step\0what is it", 15};
  call.payload = Payload::of(number(1));
  const auto received = travelled(call);
  CHECK(received.method == "step");
  CHECK_FALSE(received.trace.valid());
}

TEST_CASE("an item of a stream travels with its call", "[wire]") {
  const auto received = travelled(StreamItem{CallId{9}, Payload::of(number(3))});
  CHECK(received.call == CallId{9});
  CHECK((*received.payload.share_as<Number>())->value() == 3);
}

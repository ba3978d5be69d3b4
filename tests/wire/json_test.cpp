#include <gpuactors/test/messages.pb.h>
#include <gpuactors/wire/json.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using gpuactors::test::Number;
using gpuactors::test::Vector;

namespace {

std::string why_not(const google::protobuf::Descriptor& type, std::string_view json) {
  const auto refused = payload_from_json(type, json);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find('\n') == std::string::npos);
  return refused.error().message();
}

} // namespace

TEST_CASE("a message survives the way to JSON and back", "[wire]") {
  Vector vector;
  for (const auto value : {1.5F, -2.0F, 0.0F})
    vector.add_values(value);
  const auto json = message_to_json(vector);
  REQUIRE(json.has_value());
  const auto payload = payload_from_json(*Vector::descriptor(), *json);
  REQUIRE(payload.has_value());
  const auto back = payload->share_as<Vector>();
  REQUIRE(back.has_value());
  CHECK((*back)->SerializeAsString() == vector.SerializeAsString());
}

TEST_CASE("nothing at all is an empty message", "[wire]") {
  const auto payload = payload_from_json(*Number::descriptor(), "");
  REQUIRE(payload.has_value());
  CHECK((*payload->share_as<Number>())->value() == 0);
}

TEST_CASE("JSON that is malformed is refused with its place", "[wire]") {
  CHECK(why_not(*Number::descriptor(), "{\"value\": }").find("1") != std::string::npos);
}

TEST_CASE("an unknown field is refused with the fields that there are", "[wire]") {
  const auto text = why_not(*Number::descriptor(), "{\"worth\": 1}");
  CHECK(text.find("worth") != std::string::npos);
  CHECK(text.find("value") != std::string::npos);
}

TEST_CASE("a value of the wrong type is refused", "[wire]") {
  CHECK_FALSE(why_not(*Number::descriptor(), "{\"value\": \"many\"}").empty());
  CHECK_FALSE(why_not(*Number::descriptor(), "[1]").empty());
}

// What a message may hold before it is parsed: the bound on tensors cannot be passed.
#include <apps/serve/cut_text.hpp>
#include <apps/serve/grpc/quiet.hpp>
#include <apps/serve/grpc/wire.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/catch.hpp>

#include <inference.pb.h>

#include <memory>
#include <string>

using namespace serve;
using gpuactors::Errc;

namespace {

/// So many inputs without anything in them: two bytes each.
std::string inputs(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i)
    bytes += std::string{"\x2a\0", 2};
  return bytes;
}

/// The inputs that it was parsed into, or why it was not.
std::string parse(const std::string& bytes) {
  keep_quiet();
  const auto held = std::make_shared<HeldBytes>(std::size_t{1} << 30);
  const grpc::Slice slice{bytes};
  const auto parsed = parse_request({&slice, 1}, held);
  if (parsed)
    return std::to_string((*parsed)->inputs_size());
  CHECK(parsed.error().code() == Errc::invalid_argument);
  CHECK(held->now() == 0);
  return parsed.error().message();
}

} // namespace

TEST_CASE("a message has as many tensors as are allowed, and no more") {
  CHECK(parse(inputs(most_tensors)) == std::to_string(most_tensors));
  CHECK(parse(inputs(most_tensors + 1)) == "the request has more than 1024 inputs or outputs");
}

TEST_CASE("tensors do not hide behind what protobuf passes over") {
  const std::string no_message = "the bytes of the request are no ModelInferRequest";
  // A group that nobody knows: its begin, its end.
  CHECK(parse("\x7b\x7c" + inputs(most_tensors + 1)) == no_message);
  CHECK(parse("\x7b" + inputs(1) + "\x7c" + inputs(most_tensors + 1)) == no_message);
  // Fields that nobody knows, of the other kinds.
  CHECK(parse("\x78\x01" + inputs(most_tensors + 1)) == "the request has more than 1024 inputs or outputs");
  CHECK(parse(std::string{"\x7a\x02xy"} + inputs(2)) == "2");
  // What is cut off, or no field at all.
  CHECK(parse(inputs(most_tensors + 1) + "\x2a") == no_message);
  CHECK(parse(inputs(1) + "\x2f") == no_message);
}

TEST_CASE("what is cut stays text") {
  CHECK(cut_text("abc", 3) == "abc");
  CHECK(cut_text("abcd", 3) == "abc...");
  // Two, three and four bytes.
  for (const std::string character : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    for (std::size_t most = 4; most < 4 + character.size(); ++most)
      CHECK(cut_text("abcd" + character + "ef", most) == "abcd...");
  // What is no text is cut all the same.
  CHECK(cut_text(std::string(20, '\x80'), 10) == std::string(10, '\x80') + "...");
}

TEST_CASE("the error of a stream is short, and can be parsed") {
  std::string name;
  while (name.size() < 5'000)
    name += "\xf0\x9f\x98\x80";
  for (const auto& sentence : {name, "a" + name, "ab" + name, "abc" + name, input_name("a" + name)}) {
    auto buffer = stream_error_of({Errc::invalid_argument, sentence}, "7", true);
    grpc::Slice slice;
    REQUIRE(buffer.DumpToSingleSlice(&slice).ok());
    CHECK(slice.size() < 2'000);
    inference::ModelStreamInferResponse message;
    REQUIRE(message.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
    CHECK(message.infer_response().id() == "7");
    CHECK_FALSE(message.error_message().empty());
  }
}

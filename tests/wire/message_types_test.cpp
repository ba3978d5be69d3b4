// Messages by their descriptions: those of this program, and those that somebody made up to do harm.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/test/messages.pb.h>
#include <gpuactors/wire/message_types.hpp>

#include <support/catch.hpp>

#include <google/protobuf/descriptor.pb.h>

#include <optional>
#include <random>

using namespace gpuactors;
using namespace gpuactors::test;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;

namespace {

MessageFiles files_of(const google::protobuf::Descriptor& message) {
  MessageDescriptions descriptions;
  descriptions.add(message);
  return descriptions.files();
}

FileDescriptorProto file(const std::string& name, const std::string& package) {
  FileDescriptorProto result;
  result.set_name(name);
  result.set_package(package);
  result.set_syntax("proto3");
  return result;
}

void add_field(google::protobuf::DescriptorProto& message, const std::string& name, const std::string& type) {
  auto& field = *message.add_field();
  field.set_name(name);
  field.set_number(message.field_size());
  field.set_label(FieldDescriptorProto::LABEL_OPTIONAL);
  if (type.empty()) {
    field.set_type(FieldDescriptorProto::TYPE_INT32);
  } else {
    field.set_type(FieldDescriptorProto::TYPE_MESSAGE);
    field.set_type_name(type);
  }
}

MessageTypes types_of(const std::vector<FileDescriptorProto>& files) {
  MessageFiles bytes;
  for (const auto& each : files)
    bytes.Add(each.SerializeAsString());
  return MessageTypes{bytes};
}

/// Why a message is not there; empty when it is.
std::string problem_of(const MessageTypes& types, const std::string& message) {
  const auto found = types.find(message);
  return found ? "" : found.error().message();
}

} // namespace

TEST_CASE("JSON becomes a message whose type is known by its description only, and comes back", "[wire]") {
  const std::string name{Number::descriptor()->full_name()};
  std::optional<MessageTypes> types{files_of(*Number::descriptor())};
  auto payload = types->from_json(name, R"({"value":2.5})");
  REQUIRE(payload.has_value());
  CHECK(payload->type_name() == name);
  CHECK(payload->live_as<Number>() == nullptr); // of another description, though of the same name
  CHECK(types->to_json(*payload).value_or("") == R"({"value":2.5})");
  const auto read = payload->share_as<Number>();
  REQUIRE(read.has_value());
  CHECK((*read)->value() == 2.5);
  Number number;
  number.set_value(4);
  CHECK(types->to_json(Payload::of(number)).value_or("") == R"({"value":4})");
  CHECK(types->from_json(name, R"({"vallue":1})").error().message().find("its fields are: value") != std::string::npos);
  types.reset(); // the message keeps what it is made of
  CHECK(payload->encoded().has_value());
}

TEST_CASE("a message that nobody described is not found", "[wire]") {
  CHECK(problem_of(MessageTypes{}, "a.B") == "message type a.B is not described");
  CHECK(MessageTypes{}.from_json("a.B", "{}").error().code() == Errc::not_found);
  CHECK(MessageTypes{}.to_json(Payload::of(Number{})).error().code() == Errc::not_found);
  CHECK(MessageTypes{}.to_json(Payload{}).value_or("") == "{}");
}

TEST_CASE("descriptions that make no sense are left out, and the others stay", "[wire]") {
  auto good = file("good.proto", "good");
  good.add_message_type()->set_name("Message");
  auto lost_import = file("lost.proto", "lost");
  lost_import.add_dependency("nowhere.proto");
  lost_import.add_message_type()->set_name("Message");
  auto no_type = file("no_type.proto", "no_type");
  no_type.add_message_type()->set_name("Message");
  add_field(*no_type.mutable_message_type(0), "field", ".nowhere.Message");
  auto bad_name = file("bad_name.proto", "bad_name");
  bad_name.add_message_type()->set_name("Not A Name\x1b[31m");
  auto no_values = file("no_values.proto", "no_values");
  no_values.add_message_type()->set_name("Message");
  no_values.add_enum_type()->set_name("Empty");
  auto bad_map = file("bad_map.proto", "bad_map");
  bad_map.add_message_type()->set_name("Message");
  auto& entry = *bad_map.mutable_message_type(0)->add_nested_type();
  entry.set_name("FieldEntry");
  entry.mutable_options()->set_map_entry(true);
  add_field(*bad_map.mutable_message_type(0), "field", ".bad_map.Message.FieldEntry");
  auto itself = file("itself.proto", "itself");
  itself.add_dependency("itself.proto");
  itself.add_message_type()->set_name("Message");
  auto other = file("other.proto", "other");
  other.add_message_type()->set_name("Message");

  const auto types = types_of({good, lost_import, no_type, bad_name, no_values, bad_map, itself, other});
  CHECK(problem_of(types, "good.Message").empty());
  CHECK(problem_of(types, "other.Message").empty());
  for (const auto* name : {"lost", "no_type", "no_values", "bad_map", "itself"})
    CHECK_FALSE(problem_of(types, std::string{name} + ".Message").empty());
  CHECK(problem_of(types, "lost.Message").find("lost.proto is not consistent") != std::string::npos);
}

TEST_CASE("of two files with one path the first one counts", "[wire]") {
  auto first = file("same.proto", "same");
  first.add_message_type()->set_name("First");
  auto second = file("same.proto", "same");
  second.add_message_type()->set_name("Second");
  const auto types = types_of({first, second});
  CHECK(problem_of(types, "same.First").empty());
  CHECK_FALSE(problem_of(types, "same.Second").empty());
}

TEST_CASE("nobody can redefine Protobuf's own messages", "[wire]") {
  auto own_path = file("google/protobuf/timestamp.proto", "google.protobuf");
  own_path.add_message_type()->set_name("Timestamp");
  auto types = types_of({own_path});
  REQUIRE(problem_of(types, "google.protobuf.Timestamp").empty());
  CHECK((*types.find("google.protobuf.Timestamp"))->field_count() == 2); // as it is in truth

  auto other_path = file("timestamp.proto", "google.protobuf");
  other_path.add_message_type()->set_name("Timestamp");
  CHECK_FALSE(problem_of(types_of({other_path}), "google.protobuf.Timestamp").empty());
  auto nested = file("nested.proto", "google");
  nested.add_message_type()->set_name("protobuf");
  nested.mutable_message_type(0)->add_nested_type()->set_name("Any");
  CHECK_FALSE(problem_of(types_of({nested}), "google.protobuf.Any").empty());
  auto outer = file("outer.proto", "");
  outer.add_message_type()->set_name("google");
  outer.mutable_message_type(0)->add_nested_type()->set_name("protobuf");
  outer.mutable_message_type(0)->mutable_nested_type(0)->add_nested_type()->set_name("Value");
  CHECK_FALSE(problem_of(types_of({outer}), "google.protobuf.Value").empty());
}

TEST_CASE("options that a compiler has not finished are refused", "[wire]") {
  auto unfinished = file("unfinished.proto", "unfinished");
  auto& message = *unfinished.add_message_type();
  message.set_name("Message");
  add_field(message, "field", "");
  message.mutable_field(0)->mutable_options()->add_uninterpreted_option()->add_name()->set_name_part("deprecated");
  unfinished.mutable_message_type(0)
      ->mutable_field(0)
      ->mutable_options()
      ->mutable_uninterpreted_option(0)
      ->mutable_name(0)
      ->set_is_extension(false);
  CHECK(problem_of(types_of({unfinished}), "unfinished.Message").find("not interpreted") != std::string::npos);
}

TEST_CASE("a chain of as many messages as are allowed is one message like another", "[wire]") {
  const auto chain = [](std::size_t length) {
    auto result = file("chain.proto", "chain");
    for (std::size_t i = 0; i < length; ++i) {
      auto& message = *result.add_message_type();
      message.set_name("M" + std::to_string(i));
      if (i + 1 < length)
        add_field(message, "next", ".chain.M" + std::to_string(i + 1));
    }
    return types_of({result});
  };
  const auto allowed = chain(limits::catalog_messages);
  const auto payload = allowed.from_json("chain.M0", R"({"next":{"next":{}}})");
  REQUIRE(payload.has_value());
  CHECK(allowed.to_json(*payload).has_value());
  CHECK_FALSE(problem_of(chain(limits::catalog_messages + 1), "chain.M0").empty());
}

TEST_CASE("descriptions beyond the limit of their size are left out", "[wire]") {
  auto big = file("big.proto", "big");
  big.add_message_type()->set_name("Message");
  big.add_message_type()->set_name(std::string(limits::catalog_bytes, 'x'));
  CHECK(problem_of(types_of({big}), "big.Message").find("more than") != std::string::npos);
}

TEST_CASE("broken bytes of descriptions never end the program", "[wire]") {
  const auto files = files_of(*Number::descriptor());
  std::mt19937 random{7};
  for (int round = 0; round < 2000; ++round) {
    auto broken = files;
    auto& bytes = *broken.Mutable(static_cast<int>(random() % static_cast<unsigned>(broken.size())));
    for (unsigned i = 0; i < 1 + random() % 4; ++i)
      bytes[random() % bytes.size()] =
          static_cast<char>(random() % 128); // beyond that Protobuf complains on standard error
    const MessageTypes types{broken};
    if (types.find(Number::descriptor()->full_name()))
      CHECK_NOTHROW(types.from_json(Number::descriptor()->full_name(), R"({"value":1})"));
  }
}

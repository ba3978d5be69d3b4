#include "requests.hpp"

#include <apps/serve/protocol/documents.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/infer_reply.hpp>
#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/protocol/status.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/catch.hpp>

#include <chrono>
#include <limits>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

template <class T>
NamedTensor output(std::string name, DataType type, std::vector<T> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {std::move(name), type, {size}, Bytes::of(std::move(values))};
}

Result<HttpReply> written_reply(const InferReply& reply, const OutputForm& form) {
  HeldShare share;
  return write_reply(reply, form, share);
}

/// The data of one output, as JSON.
std::string data_of(const NamedTensor& tensor) {
  const auto reply = written_reply({"m", "1", "", {tensor}}, {});
  if (!reply)
    return "error: " + reply.error().message();
  const auto begin = reply->json.find("\"data\":") + 7;
  return reply->json.substr(begin, reply->json.find(']', begin) + 1 - begin);
}

} // namespace

TEST_CASE("a reply in JSON reads like the protocol's") {
  const InferReply reply{
      "m", "2", "id \"7\"", {{"y", DataType::fp32, {1, 2}, Bytes::of(std::vector<float>{0.5F, -3})}}};
  const auto written = written_reply(reply, {});
  REQUIRE(written);
  CHECK(written->json
        == R"({"id":"id \"7\"","model_name":"m","model_version":"2","outputs":[{"name":"y",)"
           R"("datatype":"FP32","shape":[1,2],"data":[0.5,-3]}]})");
  CHECK(written->raw.empty());
  CHECK(!written->binary);
}

TEST_CASE("elements of every type are written so that they read as the same again") {
  CHECK(data_of(output<std::uint8_t>("y", DataType::boolean, {0, 1, 7})) == "[false,true,true]");
  CHECK(data_of(output<std::int8_t>("y", DataType::int8, {-128, 127})) == "[-128,127]");
  CHECK(data_of(output<std::uint64_t>("y", DataType::uint64, {std::numeric_limits<std::uint64_t>::max()}))
        == "[18446744073709551615]");
  CHECK(data_of(output<float>("y", DataType::fp32, {0.1F, 1e-30F})) == "[0.1,1e-30]");
  CHECK(data_of(output<double>("y", DataType::fp64, {0.1, 1e300})) == "[0.1,1e+300]");
  CHECK(data_of({"y", DataType::bytes, {2}, Bytes::of(std::string{"\3\0\0\0a\"\n\0\0\0\0", 11})}) == R"(["a\"\n",""])");
  CHECK(data_of(output<float>("y", DataType::fp32, {})) == "[]");
}

TEST_CASE("what JSON cannot say is refused, with the way out") {
  CHECK(data_of(output<float>("y", DataType::fp32, {std::numeric_limits<float>::infinity()})).find("binary_data")
        != std::string::npos);
  CHECK(data_of(output<double>("y", DataType::fp64, {std::numeric_limits<double>::quiet_NaN()})).find("error") == 0);
  CHECK(data_of(output<std::uint16_t>("y", DataType::fp16, {0})).find("FP16") != std::string::npos);
  CHECK(data_of({"y", DataType::bytes, {1}, Bytes::of(std::string{"\1\0\0\0\xff", 5})}).find("UTF-8")
        != std::string::npos);
}

TEST_CASE("raw outputs follow the JSON in order, without a copy") {
  const auto y = output<float>("y", DataType::fp32, {1, 2});
  const auto z = output<std::uint16_t>("z", DataType::bf16, {1});
  const auto written = written_reply({"m", "1", "", {y, z}}, {true, {}});
  REQUIRE(written);
  CHECK(written->binary);
  CHECK(written->json.find(R"("parameters":{"binary_data_size":8})") != std::string::npos);
  CHECK(written->json.find("\"data\"") == std::string::npos);
  REQUIRE(written->raw.size() == 2);
  CHECK(written->raw[0].view().data() == y.data.view().data());
  const auto mixed = written_reply({"m", "1", "", {y, z}}, {false, {{"z", true}}});
  REQUIRE(mixed);
  CHECK(mixed->raw.size() == 1);
  CHECK(mixed->json.find(R"("data":[1,2])") != std::string::npos);
}

TEST_CASE("a configuration leaves the batch out of the dimensions") {
  ModelDescription model;
  model.name = "m";
  model.max_batch = 8;
  model.inputs = {{"x", DataType::bytes, {-1, 4}}};
  model.default_timeout = std::chrono::milliseconds{2};
  const auto json = config_document(model);
  CHECK(json.find(R"("input":[{"name":"x","data_type":"TYPE_STRING","dims":[4]}])") != std::string::npos);
  CHECK(json.find(R"("default_timeout_microseconds":2000)") != std::string::npos);
  CHECK(metadata_document(model).find(R"("shape":[-1,4])") != std::string::npos);
  model.max_batch = 0;
  CHECK(config_document(model).find(R"("dims":[-1,4])") != std::string::npos);
}

TEST_CASE("only what is ready is in the index if so wanted") {
  const std::vector<RepositoryEntry> entries{{"a", "1", "READY", ""}, {"b", "1", "LOADING", ""}};
  CHECK(index_document(entries, true) == R"([{"name":"a","version":"1","state":"READY","reason":""}])");
  CHECK(index_document(entries, false).find("LOADING") != std::string::npos);
}

TEST_CASE("error documents are UTF-8 whatever the sentence quotes") {
  CHECK(error_document("no \xff\"model\"") == "{\"error\":\"no ?\\\"model\\\"\"}");
  CHECK(error_document(std::string(1U << 20U, 'x')).size() < 1'100);
  CHECK(error_document("\xc3\xa9\x01") == "{\"error\":\"\xc3\xa9\\u0001\"}");
}

TEST_CASE("every error has a status on both ways in") {
  CHECK(http_status(Errc::invalid_argument) == 400);
  CHECK(http_status(Errc::queue_full) == 429);
  CHECK(http_status(Errc::deadline_exceeded) == 504);
  CHECK(http_status(Errc::device_lost) == 500);
  CHECK(grpc_status(Errc::invalid_argument) == 3);
  CHECK(grpc_status(Errc::queue_full) == 8);
  CHECK(grpc_status(Errc::device_lost) == 13);
}

TEST_CASE("what becomes too long while it is written is given up in the middle, and what was counted is given back") {
  const auto held = std::make_shared<HeldBytes>(1U << 20);
  // None of them is read to its end, which JSON could not say.
  std::vector<float> floats(1U << 20, 0.5F);
  floats.back() = std::numeric_limits<float>::infinity();
  std::string texts;
  for (int i = 0; i < 100; ++i)
    append_bytes_element(texts, std::string(64U << 10, 'a'));
  append_bytes_element(texts, "\xc3");
  for (const auto& tensor : {output("y", DataType::fp32, std::move(floats)),
                             NamedTensor{"y", DataType::bytes, {101}, Bytes::of(std::move(texts))}}) {
    HeldShare share{held};
    const auto written = write_reply({"m", "1", "", {tensor}, {}}, {}, share);
    REQUIRE_FALSE(written);
    CHECK(written.error().code() == Errc::no_capacity);
    HeldShare other{held};
    CHECK(write_generation({"m", "1", "", {tensor}, {}}, other).error().code() == Errc::no_capacity);
  }
  CHECK(held->now() == 0);
  // Escaped, it has six times as many characters.
  std::string element;
  append_bytes_element(element, std::string(1U << 20, '\x01'));
  HeldShare share{std::make_shared<HeldBytes>(4U << 20)};
  const NamedTensor controls{"y", DataType::bytes, {1}, Bytes::of(std::move(element))};
  CHECK(write_reply({"m", "1", "", {controls}, {}}, {}, share).error().code() == Errc::no_capacity);
}

#include "requests.hpp"

#include <apps/serve/grpc/quiet.hpp>
#include <apps/serve/protocol/generate_json.hpp>
#include <apps/serve/protocol/messages.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/catch.hpp>

#include <array>
#include <memory>
#include <random>
#include <string>

using namespace serve;
using namespace serve::test;

namespace {

constexpr int rounds = 20'000;

/// What is left of something correct after a few accidents.
class Mutator {
public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {
    // nop
  }

  std::string mutate(std::string text) {
    for (auto left = 1 + below(3); left > 0; --left)
      mutate_once(text);
    return text;
  }

  std::size_t below(std::size_t end) {
    return end == 0 ? 0 : static_cast<std::size_t>(random_() % end);
  }

private:
  void mutate_once(std::string& text) {
    static constexpr std::array<std::string_view, 14> pieces{"-1",
                                                             "9223372036854775807",
                                                             "18446744073709551616",
                                                             "1e999",
                                                             "[",
                                                             "]",
                                                             "{",
                                                             "}",
                                                             "\"",
                                                             ",",
                                                             "null",
                                                             "\xff",
                                                             "\"shape\":[4294967296,4294967296]",
                                                             R"("binary_data_size":4294967295)"};
    const auto at = below(text.size() + 1);
    switch (below(5)) {
    case 0:
      text.resize(at);
      break;
    case 1:
      if (at < text.size())
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 2:
      text.insert(at, pieces[below(pieces.size())]);
      break;
    case 3:
      text.erase(at, below(20));
      break;
    default:
      text.insert(at, text.substr(below(text.size() + 1), below(40)));
    }
  }

  std::mt19937_64 random_;
};

/// Whatever is accepted must be what the rest of the server relies on.
void check_accepted(const InferRequest& request, std::size_t body_bytes) {
  REQUIRE(check_names(request));
  std::size_t bytes = 0;
  for (const auto& input : request.inputs) {
    REQUIRE(check_tensor("input", input));
    bytes += input.data.size();
  }
  // The largest growth is that of "0," to the 8 bytes of an FP64.
  REQUIRE(bytes <= 4 * body_bytes);
}

} // namespace

TEST_CASE("mutated JSON requests are refused with a sentence or accepted whole") {
  const auto raw = raw_of<float>({1, 2, 3, 4}) + std::string{"\2\0\0\0ab", 6};
  const std::string json =
      R"({"id":"7","inputs":[{"name":"x","datatype":"FP32","shape":[2,2],"parameters":{"binary_data_size":16}},)"
      R"({"name":"t","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}},)"
      R"({"name":"n","data":[[1,2],[3,4]],"shape":[2,2],"datatype":"FP64"},)"
      R"({"name":"i","datatype":"INT16","shape":[2],"data":[-3,4]}],"parameters":{"timeout":10,"priority":1},)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  REQUIRE(read(json, raw));
  Mutator mutator{20'261'121};
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto mutated = mutator.mutate(json + raw);
    // The client says where the JSON ends: rightly, as if nothing had happened, or not at all.
    std::optional<std::uint64_t> announced{mutated.size() - std::min(mutated.size(), raw.size())};
    if (round % 4 == 1)
      announced = json.size();
    else if (round % 4 == 2)
      announced.reset();
    const auto result = read_inference(body_of(mutated), announced);
    if (result) {
      check_accepted(result->request, mutated.size());
      ++accepted;
    } else {
      REQUIRE(result.error().code() == gpuactors::Errc::invalid_argument);
      REQUIRE(result.error().message().size() > 10);
      REQUIRE(result.error().message().size() < 1'000);
    }
  }
  // Some accidents are harmless, most are not: else nothing would have been tried.
  CHECK(accepted > rounds / 100);
  CHECK(accepted < rounds / 2);
}

TEST_CASE("mutated JSON of the generate extension is refused with a sentence or accepted whole") {
  ModelDescription model;
  model.name = "m";
  model.generative = true;
  model.inputs = {{"text", DataType::bytes, {1}},
                  {"x", DataType::fp32, {-1, 2}},
                  {"n", DataType::int16, {-1}},
                  {"on", DataType::boolean, {1, 1}}};
  const std::string json = R"({"text":"a \u00e9","x":[[1,2],[3,4]],"n":[1,-2],"on":true,"id":"7",)"
                           R"("max_tokens":20,"parameters":{"seed":3,"temperature":0.5,"stop":".","timeout":10}})";
  REQUIRE(read_generation(body_of(json), model));
  Mutator mutator{20'261'123};
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto mutated = mutator.mutate(json);
    const auto request = read_generation(body_of(mutated), model);
    if (request) {
      if (!request->inputs.empty())
        check_accepted(*request, mutated.size());
      ++accepted;
    } else {
      REQUIRE(request.error().code() == gpuactors::Errc::invalid_argument);
      REQUIRE(request.error().message().size() > 10);
      REQUIRE(request.error().message().size() < 1'000);
    }
  }
  CHECK(accepted > rounds / 100);
  CHECK(accepted < rounds / 2);
}

TEST_CASE("mutated messages are refused with a sentence or accepted whole") {
  keep_quiet();
  inference::ModelInferRequest message;
  message.set_model_name("m");
  for (const auto* name : {"x", "z"}) {
    auto& input = *message.add_inputs();
    input.set_name(name);
    input.set_datatype("FP32");
    input.add_shape(2);
    message.add_raw_input_contents(raw_of<float>({1, 2}));
  }
  (*message.mutable_parameters())["timeout"].set_int64_param(10);
  message.add_outputs()->set_name("y");
  const auto whole = message.SerializeAsString();
  Mutator mutator{7};
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto bytes = mutator.mutate(whole);
    auto mutated = std::make_shared<inference::ModelInferRequest>();
    if (!mutated->ParseFromString(bytes))
      continue;
    const auto result = request_of(mutated);
    if (result) {
      check_accepted(*result, bytes.size());
      ++accepted;
    } else {
      REQUIRE(result.error().code() == gpuactors::Errc::invalid_argument);
    }
  }
  CHECK(accepted > rounds / 100);
}

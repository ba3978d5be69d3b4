// Configurations that decoders have, and what is said of others.
#include <apps/llm/config.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>

#include <nlohmann/json.hpp>

#include <cmath>

using namespace llm;
using gpuactors::Errc;
using gpuactors::test::fails;

namespace {

nlohmann::json small() {
  return {{"model_type", "llama"},         {"vocab_size", 61},       {"hidden_size", 32},
          {"intermediate_size", 48},       {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},      {"rms_norm_eps", 1e-5},   {"rope_theta", 10000.0},
          {"max_position_embeddings", 64}, {"eos_token_id", {2, 5}}};
}

/// What is said of the small one with this change.
gpuactors::Error refused(const char* name, nlohmann::json value) {
  auto json = small();
  json[name] = std::move(value);
  const auto config = read_config(json.dump());
  REQUIRE_FALSE(config);
  return config.error();
}

} // namespace

TEST_CASE("a configuration says sizes, ends and rotations") {
  const auto config = *read_config(small().dump());
  CHECK((config.vocabulary == 61 && config.width == 32 && config.inner_width == 48 && config.layers == 2));
  CHECK((config.query_heads == 4 && config.key_heads == 2 && config.head_size == 8 && config.positions == 64));
  CHECK(config.ends == std::vector<std::int32_t>{2, 5});
  REQUIRE(config.frequencies.size() == 4);
  CHECK(config.frequencies[0] == 1.0F);
  CHECK(config.frequencies[2] == Approx(0.01));
  CHECK_FALSE(config.has_bias);
  auto json = small();
  json["model_type"] = "qwen2";
  json["head_dim"] = 16;
  json["tie_word_embeddings"] = true;
  json.erase("num_key_value_heads");
  json["eos_token_id"] = 3;
  const auto other = *read_config(json.dump());
  CHECK((other.has_bias && other.is_tied && other.head_size == 16 && other.key_heads == 4));
  CHECK(other.ends == std::vector<std::int32_t>{3});
}

TEST_CASE("rotations are scaled as Llama 3.1 says: slow ones divided, fast ones as they are, others between") {
  auto json = small();
  json["head_dim"] = 64;
  json["rope_theta"] = 500000.0;
  const auto plain = read_config(json.dump())->frequencies;
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const auto scaled = read_config(json.dump())->frequencies;
  CHECK(scaled.front() == plain.front());
  CHECK(scaled.back() == Approx(plain.back() / 8));
  int between = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK((scaled[i] <= plain[i] * 1.0001F && scaled[i] >= plain[i] / 8.001F));
    between += scaled[i] < plain[i] * 0.999F && scaled[i] > plain[i] / 7.99F ? 1 : 0;
  }
  CHECK(between > 2);
  // Computed in Python from the same formula, with 2 pi / frequency between 8192 / 4 and 8192 / 1.
  CHECK(scaled[16] == Approx(0.000524846161).epsilon(1e-5));
  CHECK(scaled[17] == Approx(0.000178507813).epsilon(1e-5));
  CHECK(scaled[18] == Approx(7.7846553e-05).epsilon(1e-5));
}

TEST_CASE("rotations are found where transformers look for them") {
  auto json = small();
  const auto plain = read_config(json.dump())->frequencies;
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  CHECK(read_config(json.dump())->frequencies[1] == Approx(plain[1] / 4));
  // The newer name, beside the older one with nothing in it.
  json["rope_scaling"] = nullptr;
  json["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  CHECK(read_config(json.dump())->frequencies[1] == Approx(plain[1] / 2));
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500.0}};
  CHECK(read_config(json.dump())->frequencies[2] == Approx(1 / std::sqrt(500.0)));
  json["rope_parameters"] = {{"rope_type", "default"}};
  json["rope_theta"] = 500.0;
  CHECK(read_config(json.dump())->frequencies[2] == Approx(1 / std::sqrt(500.0)));
  json["rope_parameters"] = {{"rope_type", "linear"}};
  CHECK(fails(read_config(json.dump()).error(), Errc::invalid_argument, "no factor"));
  json["rope_parameters"] = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}};
  CHECK(fails(read_config(json.dump()).error(), Errc::invalid_argument, "no high_freq_factor"));
}

TEST_CASE("what is computed otherwise is refused and not computed wrongly") {
  CHECK(fails(refused("model_type", "gpt2"), Errc::unsupported, "gpt2"));
  CHECK(fails(refused("hidden_act", "gelu"), Errc::unsupported, "hidden_act"));
  CHECK(fails(refused("rope_scaling", {{"type", "yarn"}}), Errc::unsupported, "yarn"));
  CHECK(fails(refused("attention_bias", true), Errc::unsupported, "attention_bias"));
  CHECK(fails(refused("mlp_bias", true), Errc::unsupported, "mlp_bias"));
  CHECK(fails(refused("quantization_config", {{"quant_method", "gptq"}}), Errc::unsupported, "quantization_config"));
}

TEST_CASE("of a model that looks back at a part of the text, texts are not longer than that part") {
  auto json = small();
  json["model_type"] = "mistral";
  json["max_position_embeddings"] = 32768;
  json["sliding_window"] = 32;
  CHECK(read_config(json.dump())->positions == 32);
  json["sliding_window"] = nullptr;
  CHECK(read_config(json.dump())->positions == 32768);
  // What transformers take for one that does not say.
  json.erase("sliding_window");
  CHECK(read_config(json.dump())->positions == 4096);
  json["model_type"] = "qwen2";
  json["sliding_window"] = 32;
  CHECK(read_config(json.dump())->positions == 32768);
  json["use_sliding_window"] = true;
  CHECK(read_config(json.dump())->positions == 32);
}

TEST_CASE("more tokens that end texts come from generation_config.json") {
  auto config = *read_config(small().dump());
  REQUIRE(add_ends(config, R"({"eos_token_id": [5, 9], "temperature": 0.6})"));
  CHECK(config.ends == std::vector<std::int32_t>{2, 5, 9});
  REQUIRE(add_ends(config, "{}"));
  CHECK(fails(add_ends(config, "[]").error(), Errc::invalid_argument, "generation_config.json"));
  CHECK(fails(add_ends(config, R"({"eos_token_id": "x"})").error(), Errc::invalid_argument,
              "eos_token_id in generation_config.json"));
}

TEST_CASE("what is missing or makes no sense is said by its name") {
  auto json = small();
  json.erase("vocab_size");
  CHECK(fails(read_config(json.dump()).error(), Errc::invalid_argument, "no vocab_size"));
  CHECK(fails(refused("hidden_size", -1), Errc::invalid_argument, "hidden_size in config.json is -1"));
  CHECK(fails(refused("hidden_size", "many"), Errc::invalid_argument, "hidden_size"));
  CHECK(fails(refused("vocab_size", std::int64_t{1} << 40), Errc::invalid_argument, "vocab_size"));
  CHECK(fails(refused("num_key_value_heads", 3), Errc::invalid_argument, "do not divide"));
  CHECK(fails(refused("head_dim", 7), Errc::invalid_argument, "even number"));
  CHECK(fails(refused("num_hidden_layers", 5000), Errc::invalid_argument, "from 1 to 4096"));
  CHECK(fails(refused("eos_token_id", "end"), Errc::invalid_argument, "eos_token_id"));
  CHECK(fails(refused("rms_norm_eps", 0), Errc::invalid_argument, "rms_norm_eps"));
  CHECK(fails(refused("model_type", 3), Errc::invalid_argument, "config.json"));
  CHECK(fails(read_config("[]").error(), Errc::invalid_argument, "no JSON object"));
  CHECK(fails(read_config("{").error(), Errc::invalid_argument, "no JSON object"));
}

TEST_CASE("a configuration that is nested deeper than a stack is refused, wherever it is") {
  constexpr std::size_t depth = 1'000'000;
  const auto nested = std::string(depth, '[') + std::string(depth, ']');
  for (const std::string name : {"hidden_size", "rope_scaling", "eos_token_id", "anything"}) {
    const auto config = read_config(R"({"model_type": "llama", ")" + name + "\": " + nested + "}");
    REQUIRE_FALSE(config);
    CHECK(fails(config.error(), Errc::invalid_argument, "config.json is nested more than 32 deep"));
  }
  auto config = *read_config(small().dump());
  CHECK(fails(add_ends(config, nested).error(), Errc::invalid_argument, "generation_config.json is nested more"));
  // Brackets inside of texts are none.
  auto json = small();
  json["note"] = std::string(100, '[') + "\"\\";
  CHECK(read_config(json.dump()));
}

TEST_CASE("a configuration with more ends than any model has is refused") {
  CHECK(fails(refused("eos_token_id", std::vector<int>(65, 1)), Errc::invalid_argument,
              "lists 65 tokens; there are at most 64"));
}

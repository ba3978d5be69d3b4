// Reading config.json.
#include <apps/llm/config.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

/// More of any of them is no decoder that exists, and could overflow.
constexpr std::int64_t most = std::int64_t{1} << 24;

Result<std::int64_t> read_whole(const Json& json, const char* name, std::optional<std::int64_t> otherwise = {}) {
  const auto found = json.find(name);
  if ((found == json.end() || found->is_null()) && otherwise)
    return *otherwise;
  if (found == json.end())
    return fail(Errc::invalid_argument, fmt::format("config.json has no {}", name));
  if (!found->is_number_integer() || found->get<std::int64_t>() < 1 || found->get<std::int64_t>() > most)
    return fail(Errc::invalid_argument,
                fmt::format("{} in config.json is {}; it is a whole number from 1 to {}", name, found->dump(), most));
  return found->get<std::int64_t>();
}

Result<double> read_number(const Json& json, const char* name, double otherwise) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null())
    return otherwise;
  if (!found->is_number() || !(found->get<double>() > 0))
    return fail(Errc::invalid_argument,
                fmt::format("{} in config.json is {}; it is a number above 0", name, found->dump()));
  return found->get<double>();
}

bool says(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

/// Refuses what would be computed otherwise, instead of computing something else.
Result<void> check_kind(const Json& json) {
  static const std::set<std::string> known{"llama", "mistral", "qwen2"};
  const auto type = json.value("model_type", std::string{});
  if (!known.contains(type))
    return fail(Errc::unsupported, fmt::format("model_type in config.json is \"{}\"; decoders are of the types {}",
                                               type, fmt::join(known, ", ")));
  if (const auto activation = json.value("hidden_act", std::string{"silu"}); activation != "silu")
    return fail(Errc::unsupported, fmt::format("hidden_act in config.json is \"{}\"; it is silu", activation));
  const bool slides = type == "mistral" ? json.contains("sliding_window") && !json["sliding_window"].is_null()
                                        : says(json, "use_sliding_window");
  if (slides)
    return fail(Errc::unsupported, "config.json asks for attention to a part of the text (sliding_window), which there "
                                   "is none of here");
  if (says(json, "mlp_bias"))
    return fail(Errc::unsupported, "config.json asks for biases in the second half of a layer (mlp_bias), which there "
                                   "are none of here");
  if (type != "qwen2" && says(json, "attention_bias"))
    return fail(Errc::unsupported, "config.json asks for biases in the attention (attention_bias), which only decoders "
                                   "of the type qwen2 have here");
  return {};
}

/// The scaling of Llama 3.1: low frequencies are divided, high ones stay, those between are blended.
float scale_frequency(double frequency, double factor, double low, double high, double trained) {
  constexpr double turn = 2 * 3.14159265358979323846;
  const auto length = turn / frequency;
  if (length < trained / high)
    return static_cast<float>(frequency);
  if (length > trained / low)
    return static_cast<float>(frequency / factor);
  const auto blend = (trained / length - low) / (high - low);
  return static_cast<float>((1 - blend) * frequency / factor + blend * frequency);
}

Result<std::vector<float>> read_frequencies(const Json& json, std::int64_t head_size, std::int64_t positions) {
  // Transformers 5 has both in one entry.
  const auto& rope = json.contains("rope_parameters") ? json["rope_parameters"] : Json{};
  GPUACTORS_LET(base, read_number(rope.is_object() ? rope : json, "rope_theta", 10000.0));
  const auto& given = json.contains("rope_scaling") ? json["rope_scaling"] : rope;
  const auto scaling = given.is_object() ? given : Json::object();
  const auto kind = scaling.value("rope_type", scaling.value("type", std::string{"default"}));
  if (kind != "default" && kind != "linear" && kind != "llama3")
    return fail(Errc::unsupported, fmt::format("rope_scaling in config.json is of the type \"{}\"; it is default, "
                                               "linear or llama3",
                                               kind));
  GPUACTORS_LET(factor, read_number(scaling, "factor", 1.0));
  GPUACTORS_LET(low, read_number(scaling, "low_freq_factor", 1.0));
  GPUACTORS_LET(high, read_number(scaling, "high_freq_factor", 4.0));
  GPUACTORS_LET(trained, read_number(scaling, "original_max_position_embeddings", static_cast<double>(positions)));
  if (kind == "llama3" && high <= low)
    return fail(Errc::invalid_argument, "high_freq_factor in config.json is not above low_freq_factor");
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < head_size / 2; ++i) {
    const auto frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    frequencies.push_back(kind == "llama3"   ? scale_frequency(frequency, factor, low, high, trained)
                          : kind == "linear" ? static_cast<float>(frequency / factor)
                                             : static_cast<float>(frequency));
  }
  return frequencies;
}

Result<std::vector<std::int32_t>> read_ends(const Json& json) {
  std::vector<std::int32_t> ends;
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null())
    return ends;
  for (const auto& one : found->is_array() ? *found : Json::array({*found})) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 || one.get<std::int64_t>() > most)
      return fail(Errc::invalid_argument, fmt::format("eos_token_id in config.json is {}; it is a token or a list of "
                                                      "tokens",
                                                      found->dump()));
    ends.push_back(one.get<std::int32_t>());
  }
  return ends;
}

Result<Config> read(const Json& json) {
  GPUACTORS_TRY(check_kind(json));
  GPUACTORS_LET(vocabulary, read_whole(json, "vocab_size"));
  GPUACTORS_LET(width, read_whole(json, "hidden_size"));
  GPUACTORS_LET(inner_width, read_whole(json, "intermediate_size"));
  GPUACTORS_LET(layers, read_whole(json, "num_hidden_layers"));
  GPUACTORS_LET(query_heads, read_whole(json, "num_attention_heads"));
  GPUACTORS_LET(key_heads, read_whole(json, "num_key_value_heads", query_heads));
  GPUACTORS_LET(head_size, read_whole(json, "head_dim", std::max<std::int64_t>(1, width / query_heads)));
  GPUACTORS_LET(positions, read_whole(json, "max_position_embeddings", 2048));
  GPUACTORS_LET(epsilon, read_number(json, "rms_norm_eps", 1e-6));
  GPUACTORS_LET(frequencies, read_frequencies(json, head_size, positions));
  GPUACTORS_LET(ends, read_ends(json));
  if (query_heads % key_heads != 0)
    return fail(Errc::invalid_argument, fmt::format("config.json has {} num_attention_heads, which {} "
                                                    "num_key_value_heads do not divide",
                                                    query_heads, key_heads));
  if (head_size % 2 != 0)
    return fail(Errc::invalid_argument, fmt::format("a head of config.json has {} numbers; it has an even number of "
                                                    "them",
                                                    head_size));
  const bool has_bias = json.value("model_type", std::string{}) == "qwen2";
  return Config{vocabulary,
                width,
                inner_width,
                layers,
                query_heads,
                key_heads,
                head_size,
                positions,
                static_cast<float>(epsilon),
                has_bias,
                says(json, "tie_word_embeddings"),
                std::move(ends),
                std::move(frequencies)};
}

} // namespace

Result<Config> read_config(std::string_view text) {
  const auto json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return fail(Errc::invalid_argument, "config.json is no JSON object");
  try {
    return read(json);
  } catch (const Json::exception& error) {
    return fail(Errc::invalid_argument, fmt::format("config.json: {}", error.what()));
  }
}

} // namespace llm

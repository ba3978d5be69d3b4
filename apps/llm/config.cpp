// Reading config.json.
#include <apps/llm/config.hpp>
#include <apps/llm/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
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
constexpr std::int64_t most_layers = 4096;

Result<std::int64_t> read_whole(const Json& json, const char* name, std::optional<std::int64_t> otherwise = {},
                                std::int64_t bound = most) {
  const auto found = json.find(name);
  if ((found == json.end() || found->is_null()) && otherwise)
    return *otherwise;
  if (found == json.end())
    return fail(Errc::invalid_argument, fmt::format("config.json has no {}", name));
  if (!found->is_number_integer() || found->get<std::int64_t>() < 1 || found->get<std::int64_t>() > bound)
    return fail(Errc::invalid_argument,
                fmt::format("{} in config.json is {}; it is a whole number from 1 to {}", name, found->dump(), bound));
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
  if (json.contains("quantization_config") && !json["quantization_config"].is_null())
    return fail(Errc::unsupported, "config.json says that the weights are quantized (quantization_config); they are "
                                   "f32, f16 or bf16");
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

/// The positions that attention looks back at, where those are fewer than all: longer texts would need what is not
/// here.
Result<std::optional<std::int64_t>> read_window(const Json& json) {
  const auto type = json.value("model_type", std::string{});
  // What transformers take for a Mistral that does not say.
  constexpr std::int64_t of_mistral = 4096;
  const bool slides = type == "mistral" ? !json.contains("sliding_window") || !json["sliding_window"].is_null()
                                        : says(json, "use_sliding_window");
  if (!slides)
    return std::optional<std::int64_t>{};
  GPUACTORS_LET(window, read_whole(json, "sliding_window", of_mistral));
  return std::optional{window};
}

/// The entry of a rotation that its type cannot do without.
Result<double> read_scaling(const Json& scaling, const char* name, bool is_needed) {
  if (is_needed && (!scaling.contains(name) || scaling[name].is_null()))
    return fail(Errc::invalid_argument, fmt::format("the rotation in config.json has no {}", name));
  return read_number(scaling, name, 1.0);
}

/// The first of them that is an object with entries, as transformers take them; both have been in use.
Json object_of(const Json& json, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = json.find(name); found != json.end() && found->is_object() && !found->empty())
      return *found;
  return Json::object();
}

Result<std::vector<float>> read_frequencies(const Json& json, std::int64_t head_size, std::int64_t positions) {
  const auto scaling = object_of(json, {"rope_scaling", "rope_parameters"});
  GPUACTORS_LET(otherwise, read_number(json, "rope_theta", 10000.0));
  GPUACTORS_LET(base, read_number(object_of(json, {"rope_parameters"}), "rope_theta", otherwise));
  const auto kind = scaling.value("rope_type", scaling.value("type", std::string{"default"}));
  if (kind != "default" && kind != "linear" && kind != "llama3")
    return fail(Errc::unsupported, fmt::format("rope_scaling in config.json is of the type \"{}\"; it is default, "
                                               "linear or llama3",
                                               kind));
  GPUACTORS_LET(factor, read_scaling(scaling, "factor", kind != "default"));
  GPUACTORS_LET(low, read_scaling(scaling, "low_freq_factor", kind == "llama3"));
  GPUACTORS_LET(high, read_scaling(scaling, "high_freq_factor", kind == "llama3"));
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

Result<std::vector<std::int32_t>> read_ends(const Json& json, std::string_view file) {
  std::vector<std::int32_t> ends;
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null())
    return ends;
  constexpr std::size_t most_ends = 64;
  if (found->is_array() && found->size() > most_ends)
    return fail(Errc::invalid_argument, fmt::format("eos_token_id in {} lists {} tokens; there are at most {}", file,
                                                    found->size(), most_ends));
  for (const auto& one : found->is_array() ? *found : Json::array({*found})) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 || one.get<std::int64_t>() > most)
      return fail(Errc::invalid_argument,
                  fmt::format("eos_token_id in {} is {}; it is a token or a list of tokens", file, found->dump()));
    ends.push_back(one.get<std::int32_t>());
  }
  return ends;
}

Result<Config> read(const Json& json) {
  GPUACTORS_TRY(check_kind(json));
  GPUACTORS_LET(vocabulary, read_whole(json, "vocab_size"));
  GPUACTORS_LET(width, read_whole(json, "hidden_size"));
  GPUACTORS_LET(inner_width, read_whole(json, "intermediate_size"));
  GPUACTORS_LET(layers, read_whole(json, "num_hidden_layers", {}, most_layers));
  GPUACTORS_LET(query_heads, read_whole(json, "num_attention_heads"));
  GPUACTORS_LET(key_heads, read_whole(json, "num_key_value_heads", query_heads));
  GPUACTORS_LET(head_size, read_whole(json, "head_dim", std::max<std::int64_t>(1, width / query_heads)));
  GPUACTORS_LET(positions, read_whole(json, "max_position_embeddings", 2048));
  GPUACTORS_LET(epsilon, read_number(json, "rms_norm_eps", 1e-6));
  GPUACTORS_LET(window, read_window(json));
  GPUACTORS_LET(frequencies, read_frequencies(json, head_size, positions));
  GPUACTORS_LET(ends, read_ends(json, "config.json"));
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
                std::min(positions, window.value_or(positions)),
                static_cast<float>(epsilon),
                has_bias,
                says(json, "tie_word_embeddings"),
                std::move(ends),
                std::move(frequencies)};
}

} // namespace

Result<Config> read_config(std::string_view text) {
  GPUACTORS_LET(json, parse_object(text, "config.json"));
  try {
    return read(json);
  } catch (const Json::exception& error) {
    return fail(Errc::invalid_argument, fmt::format("config.json: {}", error.what()));
  }
}

Result<void> add_ends(Config& config, std::string_view text) {
  GPUACTORS_LET(json, parse_object(text, "generation_config.json"));
  GPUACTORS_LET(ends, read_ends(json, "generation_config.json"));
  for (const auto end : ends)
    if (std::find(config.ends.begin(), config.ends.end(), end) == config.ends.end())
      config.ends.push_back(end);
  return {};
}

} // namespace llm

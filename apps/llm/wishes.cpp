// Reading what people write beside tokens.
#include <apps/llm/wishes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
namespace v1 = gpuactors::v1;

namespace {

/// Of a text that ends answers.
constexpr std::size_t most_stop_bytes = 1024;

/// Logits divided by less would be too large for numbers, and the likeliest is chosen anyway.
constexpr float least_temperature = 1e-4F;

Result<std::int64_t> read_number(const std::string& name, const std::string& value) {
  std::int64_t number = 0;
  const auto* end = value.data() + value.size();
  constexpr std::int64_t most = 1 << 24;
  if (const auto [at, error] = std::from_chars(value.data(), end, number);
      error != std::errc{} || at != end || number < 1 || number > most)
    return fail(Errc::invalid_argument,
                fmt::format("the setting {} is \"{}\"; it is a whole number from 1 to {}", name, value, most));
  return number;
}

/// Takes one parameter. @returns what it should be if this is not it; null if there is none of this name.
std::optional<std::string_view> read_wish(Wishes& wishes, std::uint64_t& seed, const std::string& name,
                                          const v1::GenerateParameter& value) {
  constexpr std::string_view fine;
  const bool is_whole = value.has_int_value();
  const auto whole = value.int_value();
  // What JSON writes as 1 is no double.
  const bool is_number = is_whole || value.has_double_value();
  const auto number = static_cast<float>(value.double_value() + static_cast<double>(whole));
  if (name == "max_tokens") {
    wishes.max_tokens = whole;
    return is_whole && whole > 0 ? fine : "a whole number from 1";
  }
  if (name == "temperature") {
    wishes.choice.temperature = number < least_temperature ? 0 : number;
    return is_number && number >= 0 ? fine : "a number from 0";
  }
  if (name == "top_p") {
    wishes.choice.top_p = number;
    return is_number && number > 0 && number <= 1 ? fine : "a number above 0, up to 1";
  }
  if (name == "top_k") {
    constexpr auto most = std::numeric_limits<std::int32_t>::max();
    const bool fits = is_whole && whole >= 0 && whole <= most;
    wishes.choice.top_k = fits ? static_cast<std::int32_t>(whole) : 0;
    return fits ? fine : "a whole number from 0";
  }
  if (name == "seed") {
    seed = static_cast<std::uint64_t>(whole);
    return is_whole ? fine : "a whole number";
  }
  if (name == "ignore_end") {
    wishes.ignores_end = value.bool_value();
    return value.has_bool_value() ? fine : "true or false";
  }
  return std::nullopt;
}

/// The same of those that are for texts.
std::optional<std::string_view> read_wish_of_texts(Wishes& wishes, const std::string& name,
                                                   const v1::GenerateParameter& value) {
  constexpr std::string_view fine;
  constexpr std::array<std::string_view, 4> stops{"stop", "stop_2", "stop_3", "stop_4"};
  if (name == "chat") {
    wishes.is_chat = value.bool_value();
    return value.has_bool_value() ? fine : "true or false";
  }
  if (std::find(stops.begin(), stops.end(), name) == stops.end())
    return std::nullopt;
  const auto size = value.string_value().size();
  if (size == 0 || size > most_stop_bytes)
    return "a text of 1 to 1024 bytes";
  wishes.stops.push_back(value.string_value());
  return fine;
}

} // namespace

Result<Settings> read_settings(const v1::ReplicaConfig& config) {
  Settings settings;
  for (const auto& [name, value] : config.settings()) {
    if (name == "folder") {
      settings.folder = value;
    } else if (name == "context" || name == "step_tokens") {
      GPUACTORS_LET(number, read_number(name, value));
      (name == "context" ? settings.context : settings.step_tokens) = number;
    } else if (name == "share_beginnings" || name == "texts") {
      if (value != "true" && value != "false")
        return fail(Errc::invalid_argument, fmt::format("the setting {} is \"{}\"; it is true or false", name, value));
      (name == "texts" ? settings.texts : settings.share_beginnings) = value == "true";
    } else {
      return fail(
          Errc::invalid_argument,
          fmt::format("the setting \"{}\" is none of folder, context, step_tokens, share_beginnings and texts", name));
    }
  }
  if (settings.folder.empty())
    return fail(Errc::invalid_argument,
                "the setting folder is missing: set=folder=FOLDER names the one with config.json "
                "and model.safetensors");
  return settings;
}

Result<Wishes> read_wishes(const v1::GenerateRequest& request, bool of_texts, std::uint64_t seed) {
  Wishes wishes;
  for (const auto& [name, value] : request.parameters()) {
    auto wanted = read_wish(wishes, seed, name, value);
    if (!wanted && of_texts)
      wanted = read_wish_of_texts(wishes, name, value);
    if (!wanted)
      return fail(
          Errc::invalid_argument,
          fmt::format("the parameter \"{}\" is none of max_tokens, temperature, top_p, top_k, seed{} ignore_end", name,
                      of_texts ? ", stop, stop_2 to stop_4, chat and" : " and"));
    if (!wanted->empty())
      return fail(Errc::invalid_argument, fmt::format("the parameter \"{}\" must be {}", name, *wanted));
  }
  wishes.choice.seed_low = static_cast<std::uint32_t>(seed);
  wishes.choice.seed_high = static_cast<std::uint32_t>(seed >> 32U);
  return wishes;
}

} // namespace llm

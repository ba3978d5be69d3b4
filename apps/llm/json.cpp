// Parsing with a bound on the depth.
#include <apps/llm/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

/// @param most_keys  of one object: those that keep the order of their keys look through all of them for each.
Result<void> check_shape(std::string_view text, std::string_view file, std::size_t most_keys) {
  constexpr std::size_t deepest = 32;
  std::size_t depth = 0;
  std::array<std::size_t, deepest + 1> keys{};
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i; // what is escaped ends no string
      else
        in_string = text[i] != '"';
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '[' || text[i] == '{') {
      if (++depth > deepest)
        return fail(Errc::invalid_argument, fmt::format("{} is nested more than {} deep", file, deepest));
      keys[depth] = 0;
    } else if (text[i] == ']' || text[i] == '}') {
      depth -= std::min<std::size_t>(depth, 1); // what closes more than was opened is no JSON
    } else if (text[i] == ':' && ++keys[depth] > most_keys) {
      return fail(Errc::invalid_argument, fmt::format("{} has an object of more than {} keys", file, most_keys));
    }
  }
  return {};
}

template <class Json>
Result<Json> parse_as(std::string_view text, std::string_view file, std::size_t most_keys) {
  GPUACTORS_TRY(check_shape(text, file, most_keys));
  auto json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return fail(Errc::invalid_argument, fmt::format("{} is no JSON object", file));
  return json;
}

} // namespace

Result<nlohmann::json> parse_object(std::string_view text, std::string_view file) {
  return parse_as<nlohmann::json>(text, file, std::string_view::npos);
}

Result<nlohmann::ordered_json> parse_ordered_object(std::string_view text, std::string_view file) {
  constexpr std::size_t most_keys = 512;
  return parse_as<nlohmann::ordered_json>(text, file, most_keys);
}

} // namespace llm

// Parsing with a bound on the depth.
#include <apps/llm/json.hpp>

#include <fmt/format.h>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

Result<void> check_depth(std::string_view text, std::string_view file) {
  constexpr int deepest = 32;
  int depth = 0;
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
    } else if (text[i] == ']' || text[i] == '}') {
      --depth;
    }
  }
  return {};
}

template <class Json>
Result<Json> parse_as(std::string_view text, std::string_view file) {
  GPUACTORS_TRY(check_depth(text, file));
  auto json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return fail(Errc::invalid_argument, fmt::format("{} is no JSON object", file));
  return json;
}

} // namespace

Result<nlohmann::json> parse_object(std::string_view text, std::string_view file) {
  return parse_as<nlohmann::json>(text, file);
}

Result<nlohmann::ordered_json> parse_ordered_object(std::string_view text, std::string_view file) {
  return parse_as<nlohmann::ordered_json>(text, file);
}

} // namespace llm

// Reading entries of JSON objects.
#include <gpuactors/base/utf8.hpp>

#include <apps/llm/tokenizer/fields.hpp>
#include <apps/llm/tokenizer/utf8.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llm::tokenizer {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Failure;
using gpuactors::Result;
using Json = nlohmann::json;

namespace {

/// The entry of a part, or null.
const Json* find_entry(const Part& part, const char* name) {
  const auto found = part.json->find(name);
  return found == part.json->end() || found->is_null() ? nullptr : &*found;
}

Failure wrong_entry(const Part& part, const char* name, std::string_view right) {
  const auto* found = find_entry(part, name);
  return found == nullptr ? fail(Errc::invalid_argument,
                                 fmt::format("the {} in tokenizer.json has no {}, which is {}", part.name, name, right))
                          : fail(Errc::invalid_argument, fmt::format("{} of the {} in tokenizer.json is {}; it is {}",
                                                                     name, part.name, quote(found->dump()), right));
}

Result<void> add_parts(std::vector<Part>& parts, const Json& json, const std::string& name, const char* list) {
  const auto type = json.is_object() ? json.find("type") : json.end();
  if (!json.is_object() || type == json.end() || !type->is_string())
    return fail(Errc::invalid_argument, fmt::format("the {} in tokenizer.json is no object with a type", name));
  Part part{&json, fmt::format("{} {}", name, quote(type->get_ref<const std::string&>())), type->get<std::string>()};
  if (part.type != "Sequence") {
    parts.push_back(std::move(part));
    return {};
  }
  GPUACTORS_TRY(allow_only(part, {list}));
  const auto* inner = find_entry(part, list);
  if (inner == nullptr || !inner->is_array())
    return wrong_entry(part, list, "a list");
  for (const auto& one : *inner)
    GPUACTORS_TRY(add_parts(parts, one, name, list));
  return {};
}

} // namespace

Result<std::vector<Part>> read_parts(const Json& file, const std::string& name, const char* list) {
  std::vector<Part> parts;
  const auto found = file.find(name);
  if (found != file.end() && !found->is_null())
    GPUACTORS_TRY(add_parts(parts, *found, name, list));
  // No real one has more, and each goes over the whole text.
  constexpr std::size_t most_parts = 64;
  if (parts.size() > most_parts)
    return fail(Errc::invalid_argument, fmt::format("the {} in tokenizer.json has {} parts; there are at most {}", name,
                                                    parts.size(), most_parts));
  return parts;
}

Result<void> allow_only(const Part& part, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : part.json->items())
    if (name != "type" && std::find(names.begin(), names.end(), name) == names.end())
      return fail(Errc::unsupported, fmt::format("the {} in tokenizer.json has an entry {}, which is not known here",
                                                 part.name, quote(name)));
  return {};
}

Result<std::string> read_text(const Part& part, const char* name) {
  const auto* found = find_entry(part, name);
  if (found == nullptr || !found->is_string())
    return wrong_entry(part, name, "a text");
  return found->get<std::string>();
}

Result<bool> read_flag(const Part& part, const char* name, std::optional<bool> otherwise) {
  const auto* found = find_entry(part, name);
  if (found == nullptr && otherwise)
    return *otherwise;
  if (found == nullptr || !found->is_boolean())
    return wrong_entry(part, name, "true or false");
  return found->get<bool>();
}

Result<char32_t> read_character(const Part& part, const char* name) {
  GPUACTORS_LET(text, read_text(part, name));
  if (text.empty() || character_at(text, 0).bytes != text.size())
    return wrong_entry(part, name, "one character");
  return character_at(text, 0).code;
}

Result<std::int64_t> read_count(const Part& part, const char* name) {
  constexpr std::int64_t most_count = 1'000'000;
  const auto* found = find_entry(part, name);
  if (found == nullptr || !found->is_number_integer() || found->get<std::int64_t>() < 0
      || found->get<std::int64_t>() > most_count)
    return wrong_entry(part, name, "a whole number from 0 to 1000000");
  return found->get<std::int64_t>();
}

Result<std::int32_t> read_id(const Json& json, std::string_view name) {
  if (!json.is_number_integer() || json.get<std::int64_t>() < 0 || json.get<std::int64_t>() >= most_ids)
    return fail(Errc::invalid_argument,
                fmt::format("the ID of {} in tokenizer.json is {}; it is a whole number from 0 to {}", name,
                            quote(json.dump()), most_ids - 1));
  return json.get<std::int32_t>();
}

Failure refuse_type(const Part& part, std::string_view known) {
  return fail(Errc::unsupported,
              fmt::format("tokenizer.json has a {}, which is not known here: there are {}", part.name, known));
}

std::string quote(std::string_view text) {
  constexpr std::size_t most_shown = 80;
  return text.size() <= most_shown ? std::string{text} : fmt::format("{}...", gpuactors::head_of(text, most_shown));
}

} // namespace llm::tokenizer

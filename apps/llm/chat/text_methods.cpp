// The methods of texts.
#include <apps/llm/chat/methods.hpp>
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/text_forms.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace llm::chat {

namespace {

using RunMethod = Result<Value> (*)(Budget&, const std::string& text, const Arguments&);

std::string sentence(std::string_view method, const Value& value) {
  return fmt::format("calls {}() with {}", method, kind_of(value));
}

Result<Value> strip_by(Budget& budget, const std::string& text, const Arguments& arguments, bool at_left,
                       bool at_right) {
  GPUACTORS_LET(given, bind(arguments, "strip()", {"chars"}));
  std::optional<std::string_view> characters;
  if (given[0] && !given[0]->is<None>()) {
    if (!given[0]->is<Text>())
      return wrong(sentence("strip", *given[0]));
    characters = *given[0]->text();
    GPUACTORS_TRY(take_strip(budget, text, *characters));
  }
  std::string_view rest = text;
  if (at_left)
    rest = strip_left(rest, characters);
  if (at_right)
    rest = strip_right(rest, characters);
  return make_text(budget, std::string{rest});
}

Result<Value> split_by(Budget& budget, const std::string& text, const Arguments& arguments, bool is_from_end) {
  GPUACTORS_LET(given, bind(arguments, "split()", {"sep", "maxsplit"}));
  const auto most = given[1] ? whole_of(*given[1]) : std::optional<std::int64_t>{-1};
  if (!most)
    return wrong(sentence("split", *given[1]));
  if (!given[0] || given[0]->is<None>())
    return split(budget, text, std::nullopt, *most, is_from_end);
  if (!given[0]->is<Text>())
    return wrong(sentence("split", *given[0]));
  return split(budget, text, *given[0]->text(), *most, is_from_end);
}

/// startswith and endswith.
Result<Value> has_end(Budget& budget, std::string_view name, const std::string& text, const Arguments& arguments,
                      bool at_end) {
  GPUACTORS_LET(given, bind(arguments, name, {"prefix"}, 1));
  const auto* tuple = given[0]->as<Tuple>();
  const std::span<const Value> parts = tuple != nullptr ? std::span{tuple->items->values} : std::span{&*given[0], 1};
  for (const auto& part : parts) {
    const auto* one = part.text();
    if (one == nullptr)
      return wrong(sentence(name, part));
    GPUACTORS_TRY(budget.step(1 + one->size() / 64));
    if (at_end ? text.ends_with(*one) : text.starts_with(*one))
      return Value{true};
  }
  return Value{false};
}

Result<Value> find_by(Budget& budget, std::string_view name, const std::string& text, const Arguments& arguments,
                      bool from_end) {
  GPUACTORS_LET(given, bind(arguments, name, {"sub"}, 1));
  const auto* part = given[0]->text();
  if (part == nullptr)
    return wrong(sentence(name, *given[0]));
  GPUACTORS_TRY(budget.look(text.size() + part->size()));
  auto found = find_part(text, *part);
  if (from_end && found != std::string_view::npos) {
    if (part->empty())
      found = text.size();
    for (auto next = found; next != std::string_view::npos && !part->empty(); next = find_part(text, *part, next + 1)) {
      GPUACTORS_TRY(budget.step(1 + part->size() / 64));
      found = next;
    }
  }
  return Value{found == std::string_view::npos
                   ? std::int64_t{-1}
                   : static_cast<std::int64_t>(count_characters(std::string_view{text}.substr(0, found)))};
}

Result<Value> replace_by(Budget& budget, const std::string& text, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "replace()", {"old", "new", "count"}, 2));
  if (!arguments.named.empty())
    return unknown("calls replace() with an argument that has a name");
  const auto count = given[2] ? whole_of(*given[2]) : std::optional<std::int64_t>{-1};
  for (const auto* one : {&*given[0], &*given[1]})
    if (!one->is<Text>())
      return wrong(sentence("replace", *one));
  if (!count)
    return wrong(sentence("replace", *given[2]));
  return replace_parts(budget, text, *given[0]->text(), *given[1]->text(), *count);
}

Result<Value> join_by(Budget& budget, const std::string& text, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "join()", {"iterable"}, 1));
  GPUACTORS_LET(values, all_of(budget, *given[0]));
  for (const auto& value : values)
    if (!value.is<Text>())
      return wrong(sentence("join", value));
  return join(budget, values, text);
}

Result<Value> remove_end(Budget& budget, std::string_view name, const std::string& text, const Arguments& arguments,
                         bool at_end) {
  GPUACTORS_LET(given, bind(arguments, name, {"part"}, 1));
  const auto* part = given[0]->text();
  if (part == nullptr)
    return wrong(sentence(name, *given[0]));
  const bool has_it = at_end ? text.ends_with(*part) : text.starts_with(*part);
  return make_text(budget, has_it ? text.substr(at_end ? 0 : part->size(), text.size() - part->size()) : text);
}

Result<Value> lines_of(Budget& budget, const std::string& text, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "splitlines()", {}));
  std::vector<Value> lines;
  for (std::size_t at = 0; at < text.size();) {
    GPUACTORS_LET(value, make_text(budget, std::string{next_line(text, at)}));
    lines.push_back(value);
  }
  return make_list(budget, std::move(lines));
}

template <auto Change>
Result<Value> change_by(Budget& budget, const std::string& text, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "a method of a text", {}));
  return Change(budget, text);
}

struct MethodRow {
  std::string_view name;
  RunMethod run;
};

constexpr MethodRow method_rows[] = {
    {"strip", [](auto& budget, auto& text, auto& given) { return strip_by(budget, text, given, true, true); }},
    {"lstrip", [](auto& budget, auto& text, auto& given) { return strip_by(budget, text, given, true, false); }},
    {"rstrip", [](auto& budget, auto& text, auto& given) { return strip_by(budget, text, given, false, true); }},
    {"split", [](auto& budget, auto& text, auto& given) { return split_by(budget, text, given, false); }},
    {"rsplit", [](auto& budget, auto& text, auto& given) { return split_by(budget, text, given, true); }},
    {"startswith",
     [](auto& budget, auto& text, auto& given) { return has_end(budget, "startswith", text, given, false); }},
    {"endswith", [](auto& budget, auto& text, auto& given) { return has_end(budget, "endswith", text, given, true); }},
    {"find", [](auto& budget, auto& text, auto& given) { return find_by(budget, "find", text, given, false); }},
    {"rfind", [](auto& budget, auto& text, auto& given) { return find_by(budget, "rfind", text, given, true); }},
    {"replace", replace_by},
    {"join", join_by},
    {"removeprefix",
     [](auto& budget, auto& text, auto& given) { return remove_end(budget, "removeprefix", text, given, false); }},
    {"removesuffix",
     [](auto& budget, auto& text, auto& given) { return remove_end(budget, "removesuffix", text, given, true); }},
    {"splitlines", lines_of},
    {"upper", change_by<make_upper>},
    {"lower", change_by<make_lower>},
    {"capitalize", change_by<make_capitalized>},
    {"title", change_by<make_title>},
};

} // namespace

bool is_text_method(std::string_view name) {
  return std::any_of(std::begin(method_rows), std::end(method_rows),
                     [&](const MethodRow& row) { return row.name == name; });
}

Result<Value> call_text_method(Budget& budget, const Method& method, const Arguments& arguments) {
  const auto& text = *method.self->text();
  GPUACTORS_TRY(budget.read(text.size()));
  if (!arguments.named.empty() && method.name != "split" && method.name != "rsplit")
    return unknown(fmt::format("calls {}() with an argument that has a name", method.name));
  for (const auto& row : method_rows)
    if (row.name == method.name)
      return row.run(budget, text, arguments);
  return unknown(fmt::format("calls {}() of a text", method.name));
}

} // namespace llm::chat

// Which attributes values have, and what they hold.
#include <apps/llm/chat/methods.hpp>
#include <apps/llm/chat/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llm::chat {

namespace {

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What Python's kinds of values have: a name that is none of these is looked up as an item.
constexpr std::array<std::string_view, 47> of_text = {
    "capitalize",   "casefold",   "center",    "count",       "encode",    "endswith",     "expandtabs",   "find",
    "format",       "format_map", "index",     "isalnum",     "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",      "join",
    "ljust",        "lower",      "lstrip",    "maketrans",   "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",     "rjust",     "rpartition",  "rsplit",    "rstrip",       "split",        "splitlines",
    "startswith",   "strip",      "swapcase",  "title",       "translate", "upper",        "zfill"};
constexpr std::array<std::string_view, 6> of_dict = {"copy", "fromkeys", "get", "items", "keys", "values"};
constexpr std::array<std::string_view, 5> changes_dict = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 3> of_list = {"copy", "count", "index"};
constexpr std::array<std::string_view, 8> changes_list = {"append", "clear", "pop",    "reverse",
                                                          "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 13> of_number = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "fromhex", "hex", "imag",
    "is_integer",       "numerator", "real",       "to_bytes"};
constexpr std::array<std::string_view, 2> of_view = {"isdisjoint", "mapping"};
constexpr std::array<std::string_view, 5> of_range = {"count", "index", "start", "step", "stop"};
constexpr std::array<std::string_view, 2> of_tuple = {"count", "index"};
constexpr std::array<std::string_view, 4> known_of_dict = {"get", "items", "keys", "values"};
constexpr std::array<std::string_view, 2> of_loop = {"cycle", "changed"};

enum class Has { nothing, method, forbidden, unknown };

Has look_for(const Value& value, std::string_view name) {
  const auto has = [&](bool is_method, bool changes = false) {
    return changes ? Has::forbidden : is_method ? Has::method : Has::nothing;
  };
  if (name.starts_with("__"))
    return Has::unknown;
  if (value.is<Text>())
    return has(is_among(of_text, name));
  if (value.is<Dict>())
    return has(is_among(of_dict, name), is_among(changes_dict, name));
  if (value.is<List>())
    return has(is_among(of_list, name), is_among(changes_list, name));
  if (value.is<Tuple>())
    return has(is_among(of_tuple, name));
  const bool is_unknown = is_number(value)    ? is_among(of_number, name)
                          : value.is<View>()  ? is_among(of_view, name)
                          : value.is<Range>() ? is_among(of_range, name)
                                              : !value.is<None>();
  return is_unknown ? Has::unknown : Has::nothing;
}

Result<Value> no_attribute(Budget& budget, const Value& value, std::string_view name) {
  return make_undefined(
      budget, fmt::format("asks for the attribute {} of {}, which has none", shown_name(name), kind_of(value)));
}

/// The method or the attribute with this name; null if there is none.
Result<std::optional<Value>> find_attribute(Budget& budget, const Value& value, std::string_view name) {
  if (const auto* space = value.as<NamespaceRef>()) {
    GPUACTORS_TRY(budget.step(space->space->attributes.size() / 8));
    for (const auto& [one, attribute] : space->space->attributes)
      if (one == name)
        return std::optional{attribute};
    return std::optional<Value>{};
  }
  switch (look_for(value, name)) {
  case Has::method: {
    // The name of a method lives as long as the program; that of an attribute may not.
    constexpr auto find = [](const auto& names, std::string_view one) {
      const auto* found = std::find(names.begin(), names.end(), one);
      return found == names.end() ? std::string_view{} : *found;
    };
    const auto kept = value.is<Text>()   ? find(of_text, name)
                      : value.is<Dict>() ? find(of_dict, name)
                                         : find(of_list, name);
    return std::optional{Value{Method{kept, std::make_shared<const Value>(value)}}};
  }
  case Has::forbidden:
    return std::optional{
        undefined(fmt::format("changes {} by {}(), which the sandbox does not allow", kind_of(value), name))};
  case Has::unknown:
    return unknown(fmt::format("asks for the attribute {} of {}", shown_name(name), kind_of(value)));
  case Has::nothing:
    break;
  }
  return std::optional<Value>{};
}

/// The item with this number; null if there is none.
Result<std::optional<Value>> find_numbered(Budget& budget, const Value& value, std::int64_t index) {
  GPUACTORS_TRY(budget.look(value.is<Text>() ? value.text()->size() : 0));
  GPUACTORS_LET(length, length_of(value));
  if (index < 0)
    index += length;
  if (index < 0 || index >= length)
    return std::optional<Value>{};
  if (const auto* items = value.items())
    return std::optional{items->values[static_cast<std::size_t>(index)]};
  if (const auto* range = value.as<Range>())
    return std::optional{Value{number_at(*range, index)}};
  const auto& text = *value.text();
  GPUACTORS_TRY(budget.read(text.size()));
  const auto begin = offset_of(text, static_cast<std::size_t>(index));
  auto end = begin;
  next_character(text, end);
  GPUACTORS_LET(made, make_text(budget, text.substr(begin, end - begin)));
  return std::optional{made};
}

bool is_numbered(const Value& value) {
  return value.is<Text>() || value.items() != nullptr || value.is<Range>();
}

/// What a slice takes: a start, a step and how many.
struct Cut {
  std::int64_t start, step, count;
};

Result<std::optional<std::int64_t>> whole_or_null(const std::optional<Value>& value) {
  if (!value || value->is<None>())
    return std::optional<std::int64_t>{};
  const auto number = whole_of(*value);
  if (!number)
    return wrong(fmt::format("slices by {}", kind_of(*value)));
  return std::optional{*number};
}

Cut cut(std::int64_t length, std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step) {
  const bool is_back = step < 0;
  const auto least = is_back ? std::int64_t{-1} : 0;
  const auto most = is_back ? length - 1 : length;
  const auto place = [&](std::int64_t index) {
    return index < 0 ? std::max(index + length, least) : std::min(index, most);
  };
  const auto from = start ? place(*start) : is_back ? most : least;
  const auto to = stop ? place(*stop) : is_back ? least : most;
  const auto distance = is_back ? from - to : to - from;
  // A step beyond the length takes one, however large it is; so it needs no sign changed that has none.
  const auto stride = is_back ? (step < -length ? length + 1 : -step) : std::min(step, length + 1);
  return {from, is_back ? -stride : stride, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

Result<Value> slice_text(Budget& budget, const std::string& text, const Cut& taken) {
  std::vector<std::size_t> starts;
  GPUACTORS_TRY(budget.take(text.size() * sizeof(std::size_t)));
  for (std::size_t at = 0; at < text.size(); next_character(text, at))
    starts.push_back(at);
  starts.push_back(text.size());
  if (taken.step == 1)
    return make_text(budget, text.substr(starts[static_cast<std::size_t>(taken.count > 0 ? taken.start : 0)],
                                         taken.count > 0 ? starts[static_cast<std::size_t>(taken.start + taken.count)]
                                                               - starts[static_cast<std::size_t>(taken.start)]
                                                         : 0));
  std::string result;
  for (std::int64_t i = 0; i < taken.count; ++i) {
    const auto number = static_cast<std::size_t>(taken.start + i * taken.step);
    result.append(text, starts[number], starts[number + 1] - starts[number]);
  }
  return make_text(budget, std::move(result));
}

} // namespace

bool is_method(std::string_view name) {
  return is_text_method(name) || is_among(known_of_dict, name) || is_among(of_loop, name);
}

Result<Value> attribute_of(Budget& budget, const Value& value, std::string_view name) {
  if (const auto* undefined = value.as<Undefined>())
    return wrong(*undefined->why);
  GPUACTORS_LET(found, find_attribute(budget, value, name));
  if (found)
    return *found;
  if (const auto* entries = value.entries()) {
    GPUACTORS_LET(item, find_entry(budget, *entries, text_value(std::string{name})));
    if (item != nullptr)
      return *item;
  }
  return no_attribute(budget, value, name);
}

Result<Value> item_of(Budget& budget, const Value& value, const Value& key) {
  if (const auto* undefined = value.as<Undefined>())
    return wrong(*undefined->why);
  if (const auto* entries = value.entries()) {
    if (key.is<List>() || key.is<Dict>())
      return no_attribute(budget, value, "with such a name");
    GPUACTORS_LET(item, find_entry(budget, *entries, key));
    if (item != nullptr)
      return *item;
  }
  if (const auto* name = key.text()) {
    GPUACTORS_LET(found, find_attribute(budget, value, *name));
    return found ? *found : no_attribute(budget, value, *name);
  }
  if (const auto index = whole_of(key); index && is_numbered(value)) {
    GPUACTORS_LET(found, find_numbered(budget, value, *index));
    if (found)
      return *found;
    return make_undefined(budget, fmt::format("asks for the item {} of {}, which has none", *index, kind_of(value)));
  }
  if (value.is<MacroRef>() || value.is<Method>() || value.is<Function>())
    return unknown(fmt::format("asks for an item of {}", kind_of(value)));
  return no_attribute(budget, value, "with such a name");
}

Result<Value> slice_of(Budget& budget, const Value& value, const std::optional<Value>& start,
                       const std::optional<Value>& stop, const std::optional<Value>& step) {
  if (const auto* undefined = value.as<Undefined>())
    return wrong(*undefined->why);
  if (!is_numbered(value))
    return wrong(fmt::format("slices {}", kind_of(value)));
  GPUACTORS_LET(from, whole_or_null(start));
  GPUACTORS_LET(to, whole_or_null(stop));
  GPUACTORS_LET(by, whole_or_null(step));
  if (by == 0)
    return wrong("slices with a step of 0");
  GPUACTORS_LET(length, length_of(value));
  const auto taken = cut(length, from, to, by.value_or(1));
  if (const auto* text = value.text())
    return slice_text(budget, *text, taken);
  if (value.is<Range>())
    return unknown("slices a range");
  std::vector<Value> values;
  for (std::int64_t i = 0; i < taken.count; ++i)
    values.push_back(value.items()->values[static_cast<std::size_t>(taken.start + i * taken.step)]);
  return value.is<List>() ? make_list(budget, std::move(values)) : make_tuple(budget, std::move(values));
}

Result<Value> call_method(Budget& budget, const Method& method, const Arguments& arguments) {
  if (method.self->is<Text>())
    return call_text_method(budget, method, arguments);
  const auto* dict = method.self->as<Dict>();
  if (dict == nullptr || !is_among(known_of_dict, method.name))
    return unknown(fmt::format("calls {}() of {}", method.name, kind_of(*method.self)));
  if (!arguments.named.empty())
    return wrong(fmt::format("calls {}() with an argument that has a name", method.name));
  if (method.name == "get") {
    GPUACTORS_LET(given, bind(arguments, "get()", {"key", "default"}, 1));
    GPUACTORS_LET(found, find_entry(budget, *dict->entries, *given[0]));
    return found != nullptr ? *found : given[1].value_or(Value{None{}});
  }
  if (!arguments.values.empty())
    return wrong(fmt::format("calls {}() with arguments", method.name));
  const auto kind = method.name == "items"  ? View::Kind::items
                    : method.name == "keys" ? View::Kind::keys
                                            : View::Kind::values;
  return Value{View{kind, dict->entries}};
}

} // namespace llm::chat

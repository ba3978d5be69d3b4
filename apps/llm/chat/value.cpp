// Making values, and asking them.
#include <gpuactors/base/utf8.hpp>

#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/value.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::chat {

namespace {

/// The depth of a container of these, or an error.
template <class Values>
Result<int> depth_over(const Values& values) {
  int depth = 0;
  for (const auto& value : values)
    depth = std::max(depth, depth_of(value));
  if (depth >= most_values_in_each_other)
    return wrong(fmt::format("puts more than {} lists, dicts and filters in each other", most_values_in_each_other));
  return depth + 1;
}

Result<std::shared_ptr<const Items>> make_items(Budget& budget, std::vector<Value> values) {
  GPUACTORS_TRY(budget.take(sizeof(Items) + values.size() * sizeof(Value)));
  GPUACTORS_LET(depth, depth_over(values));
  return std::make_shared<const Items>(Items{std::move(values), depth});
}

/// Whether it can be a key.
Result<void> check_key(Budget& budget, const Value& key) {
  if (const auto* tuple = key.as<Tuple>()) {
    GPUACTORS_TRY(budget.step(tuple->items->values.size()));
    for (const auto& value : tuple->items->values)
      GPUACTORS_TRY(check_key(budget, value));
    return {};
  }
  if (key.is<Text>() || key.is<None>() || is_number(key) || key.is<Undefined>())
    return {};
  if (key.is<List>() || key.is<Dict>())
    return wrong(fmt::format("takes {} as a key, which can change", kind_of(key)));
  return unknown(fmt::format("takes {} as a key", kind_of(key)));
}

} // namespace

const Items* Value::items() const {
  if (const auto* list = as<List>())
    return list->items.get();
  const auto* tuple = as<Tuple>();
  return tuple == nullptr ? nullptr : tuple->items.get();
}

Value undefined(std::string why) {
  return Value{Undefined{std::make_shared<const std::string>(std::move(why))}};
}

Result<Value> make_undefined(Budget& budget, std::string why) {
  GPUACTORS_TRY(budget.take(why.size() + sizeof(std::string)));
  return undefined(std::move(why));
}

Value text_value(std::string text) {
  return Value{std::make_shared<const std::string>(std::move(text))};
}

Result<Value> make_text(Budget& budget, std::string text) {
  GPUACTORS_TRY(budget.take(text.size() + sizeof(std::string)));
  return text_value(std::move(text));
}

Result<Value> make_list(Budget& budget, std::vector<Value> values) {
  GPUACTORS_LET(items, make_items(budget, std::move(values)));
  return Value{List{std::move(items)}};
}

Result<Value> make_tuple(Budget& budget, std::vector<Value> values) {
  GPUACTORS_LET(items, make_items(budget, std::move(values)));
  return Value{Tuple{std::move(items)}};
}

Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> pairs) {
  GPUACTORS_TRY(budget.take(sizeof(Entries) + pairs.size() * 2 * sizeof(Value)));
  std::vector<Value> parts;
  for (const auto& [key, value] : pairs) {
    parts.push_back(key);
    parts.push_back(value);
  }
  GPUACTORS_LET(depth, depth_over(parts));
  return Value{Dict{std::make_shared<const Entries>(Entries{std::move(pairs), depth})}};
}

Result<Value> make_generator(std::shared_ptr<Iterator> iterator) {
  if (iterator->depth() > most_values_in_each_other)
    return wrong(fmt::format("puts more than {} lists, dicts and filters in each other", most_values_in_each_other));
  return Value{Generator{std::move(iterator)}};
}

Result<void> set_entry(Budget& budget, std::vector<std::pair<Value, Value>>& pairs, Value key, Value value) {
  GPUACTORS_TRY(check_key(budget, key));
  for (auto& [one, old] : pairs) {
    GPUACTORS_LET(is_same, equal(budget, one, key));
    if (!is_same)
      continue;
    old = std::move(value);
    return {};
  }
  pairs.emplace_back(std::move(key), std::move(value));
  return {};
}

Result<const Value*> find_entry(Budget& budget, const Entries& entries, const Value& key) {
  GPUACTORS_TRY(check_key(budget, key));
  GPUACTORS_TRY(budget.step(entries.pairs.size() / 8));
  const auto* wanted = key.text();
  for (const auto& [one, value] : entries.pairs) {
    const auto* name = one.text();
    if (wanted != nullptr && name != nullptr) {
      if (name->size() != wanted->size())
        continue;
      GPUACTORS_TRY(budget.look(wanted->size()));
      if (*name == *wanted)
        return &value;
      continue;
    }
    GPUACTORS_LET(is_same, equal(budget, one, key));
    if (is_same)
      return &value;
  }
  return nullptr;
}

int depth_of(const Value& value) {
  if (const auto* items = value.items())
    return items->depth;
  if (const auto* entries = value.entries())
    return entries->depth;
  if (const auto* view = value.as<View>())
    return view->entries->depth;
  if (const auto* generator = value.as<Generator>())
    return generator->iterator->depth();
  const auto* method = value.as<Method>();
  return method == nullptr ? 0 : 1 + depth_of(*method->self);
}

std::string_view kind_of(const Value& value) {
  constexpr std::string_view names[] = {"an unset variable",
                                        "an undefined value",
                                        "none",
                                        "a truth value",
                                        "a whole number",
                                        "a number",
                                        "a text",
                                        "a list",
                                        "a tuple",
                                        "a dict",
                                        "a view of a dict",
                                        "a range",
                                        "a generator",
                                        "a namespace",
                                        "a macro",
                                        "a loop",
                                        "a method",
                                        "a function"};
  static_assert(std::size(names) == std::variant_size_v<Value::State>);
  return names[value.state.index()];
}

std::string_view shown_name(std::string_view name) {
  constexpr std::size_t most = 80;
  return gpuactors::head_of(name, most);
}

bool is_true(const Value& value) {
  if (const auto* flag = value.as<bool>())
    return *flag;
  if (const auto* number = value.as<std::int64_t>())
    return *number != 0;
  if (const auto* number = value.as<double>())
    return *number != 0;
  if (const auto* text = value.text())
    return !text->empty();
  if (const auto* items = value.items())
    return !items->values.empty();
  if (const auto* entries = value.entries())
    return !entries->pairs.empty();
  if (const auto* view = value.as<View>())
    return !view->entries->pairs.empty();
  if (const auto* range = value.as<Range>())
    return range->length > 0;
  return !value.is<Missing>() && !value.is<Undefined>() && !value.is<None>();
}

bool is_number(const Value& value) {
  return value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
}

std::optional<std::int64_t> whole_of(const Value& value) {
  if (const auto* flag = value.as<bool>())
    return *flag ? 1 : 0;
  const auto* number = value.as<std::int64_t>();
  return number == nullptr ? std::nullopt : std::optional{*number};
}

Result<std::int64_t> length_of(const Value& value) {
  if (const auto* text = value.text())
    return static_cast<std::int64_t>(count_characters(*text));
  if (const auto* items = value.items())
    return static_cast<std::int64_t>(items->values.size());
  if (const auto* entries = value.entries())
    return static_cast<std::int64_t>(entries->pairs.size());
  if (const auto* view = value.as<View>())
    return static_cast<std::int64_t>(view->entries->pairs.size());
  if (const auto* range = value.as<Range>())
    return range->length;
  if (value.is<Undefined>())
    return 0;
  return wrong(fmt::format("asks for the length of {}, which has none", kind_of(value)));
}

std::int64_t number_at(const Range& range, std::int64_t index) {
  return range.start + index * range.step;
}

} // namespace llm::chat

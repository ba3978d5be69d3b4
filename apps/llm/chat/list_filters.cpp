// Filters that take all values of a list at once.
#include <apps/llm/chat/arithmetic.hpp>
#include <apps/llm/chat/filters.hpp>
#include <apps/llm/chat/text_forms.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace llm::chat {

namespace {

Result<Value> length(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "length", {}));
  GPUACTORS_TRY(budget.look(subject.is<Text>() ? subject.text()->size() : 0));
  GPUACTORS_LET(count, length_of(subject));
  return Value{count};
}

Result<Value> or_default(Budget&, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "default", {"default_value", "boolean"}));
  const bool is_empty = subject.is<Undefined>() || (is_set(given[1]) && !is_true(subject));
  return is_empty ? given[0].value_or(text_value("")) : subject;
}

Result<Value> join_all(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "join", {"d", "attribute"}));
  GPUACTORS_LET(values, all_of(budget, subject));
  if (given[1])
    for (auto& value : values) {
      GPUACTORS_LET(found, look_up(budget, value, *given[1]));
      value = found;
    }
  GPUACTORS_LET(separator, to_text(budget, given[0].value_or(text_value(""))));
  return join(budget, values, *separator);
}

template <bool IsLast>
Result<Value> end_of(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, IsLast ? "last" : "first", {}));
  GPUACTORS_LET(iterator, IsLast ? iterate_reversed(subject) : iterate(subject));
  Value value;
  GPUACTORS_LET(has_one, iterator->next(budget, value));
  return has_one ? value : undefined("asks for the first or last value of what is empty");
}

Result<Value> as_list(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "list", {}));
  GPUACTORS_LET(values, all_of(budget, subject));
  return make_list(budget, std::move(values));
}

Result<Value> reversed(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "reverse", {}));
  if (subject.is<Text>()) {
    GPUACTORS_LET(backwards, iterate_reversed(subject));
    GPUACTORS_LET(characters, all_of(budget, Value{Generator{backwards}}));
    return join(budget, characters, "");
  }
  if (!subject.is<Generator>()) {
    GPUACTORS_LET(backwards, iterate_reversed(subject));
    return make_generator(std::move(backwards));
  }
  GPUACTORS_LET(values, all_of(budget, subject));
  std::reverse(values.begin(), values.end());
  return make_list(budget, std::move(values));
}

/// The values in the order of the keys; equal ones stay as they are.
Result<std::vector<Value>> sort_by(Budget& budget, const std::vector<Value>& values, const std::vector<Value>& keys,
                                   bool is_reversed) {
  std::vector<std::size_t> order_of(values.size());
  std::iota(order_of.begin(), order_of.end(), std::size_t{0});
  Result<void> outcome;
  std::stable_sort(order_of.begin(), order_of.end(), [&](std::size_t a, std::size_t b) {
    if (!outcome)
      return false;
    const auto ordered = order(budget, keys[a], keys[b]);
    if (!ordered)
      outcome = gpuactors::fail(ordered.error());
    return ordered && (is_reversed ? *ordered > 0 : *ordered < 0);
  });
  GPUACTORS_TRY(outcome);
  std::vector<Value> sorted;
  sorted.reserve(order_of.size());
  for (const auto index : order_of)
    sorted.push_back(values[index]);
  return sorted;
}

/// What a value is sorted by: its attributes, of which there may be several with commas between them.
Result<Value> sort_key(Budget& budget, const Value& value, const std::optional<Value>& attribute, bool has_case) {
  std::vector<Value> attributes{attribute.value_or(Value{None{}})};
  if (attribute && attribute->is<Text>()) {
    attributes.clear();
    const auto& names = *attribute->text();
    for (std::size_t begin = 0; begin <= names.size();) {
      const auto end = std::min(names.find(',', begin), names.size());
      GPUACTORS_LET(name, make_text(budget, names.substr(begin, end - begin)));
      attributes.push_back(std::move(name));
      begin = end + 1;
    }
  }
  std::vector<Value> keys;
  for (const auto& one : attributes) {
    GPUACTORS_LET(found, look_up(budget, value, one));
    GPUACTORS_LET(key, has_case ? Result<Value>{found} : without_case(budget, found));
    keys.push_back(key);
  }
  return make_list(budget, std::move(keys));
}

Result<Value> sort(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "sort", {"reverse", "case_sensitive", "attribute"}));
  GPUACTORS_LET(values, all_of(budget, subject));
  std::vector<Value> keys;
  for (const auto& value : values) {
    GPUACTORS_LET(key, sort_key(budget, value, given[2], is_set(given[1])));
    keys.push_back(key);
  }
  GPUACTORS_LET(sorted, sort_by(budget, values, keys, is_set(given[0])));
  return make_list(budget, std::move(sorted));
}

Result<Value> dictsort(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "dictsort", {"case_sensitive", "by", "reverse"}));
  const auto* entries = subject.entries();
  if (entries == nullptr)
    return wrong(fmt::format("sorts {} as a dict", kind_of(subject)));
  const auto by = given[1] ? *given[1] : text_value("key");
  if (by.text() == nullptr || (*by.text() != "key" && *by.text() != "value"))
    return wrong("sorts a dict by neither \"key\" nor \"value\"");
  std::vector<Value> values;
  std::vector<Value> keys;
  for (const auto& [key, value] : entries->pairs) {
    GPUACTORS_LET(pair, make_tuple(budget, {key, value}));
    values.push_back(pair);
    const auto& wanted = *by.text() == "key" ? key : value;
    GPUACTORS_LET(sorted_by, is_set(given[0]) ? Result<Value>{wanted} : without_case(budget, wanted));
    keys.push_back(sorted_by);
  }
  GPUACTORS_LET(sorted, sort_by(budget, values, keys, is_set(given[2])));
  return make_list(budget, std::move(sorted));
}

Result<Value> sum(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "sum", {"attribute", "start"}));
  GPUACTORS_LET(values, all_of(budget, subject));
  auto total = given[1].value_or(Value{std::int64_t{0}});
  if (total.is<Text>())
    return wrong("sums texts up");
  for (const auto& value : values) {
    GPUACTORS_LET(one, look_up(budget, value, given[0].value_or(Value{None{}})));
    if (one.is<double>())
      return unknown("sums numbers up that are not whole"); // versions of Python round in different ways
    GPUACTORS_LET(next, compute(budget, Operator::add, total, one));
    total = next;
  }
  return total;
}

template <bool IsMost>
Result<Value> extreme(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, IsMost ? "max" : "min", {"case_sensitive", "attribute"}));
  GPUACTORS_LET(values, all_of(budget, subject));
  if (values.empty())
    return undefined("asks for the least or the most of no values");
  std::optional<Value> best;
  std::optional<Value> best_key;
  for (const auto& value : values) {
    GPUACTORS_LET(found, look_up(budget, value, given[1].value_or(Value{None{}})));
    GPUACTORS_LET(key, is_set(given[0]) ? Result<Value>{found} : without_case(budget, found));
    if (best) {
      GPUACTORS_LET(ordered, order(budget, key, *best_key));
      if (IsMost ? ordered <= 0 : ordered >= 0)
        continue;
    }
    best = value;
    best_key = key;
  }
  return *best;
}

constexpr FilterRow list_rows[] = {
    {"length", length},      {"count", length},        {"default", or_default}, {"d", or_default},
    {"join", join_all},      {"first", end_of<false>}, {"last", end_of<true>},  {"list", as_list},
    {"reverse", reversed},   {"sort", sort},           {"dictsort", dictsort},  {"sum", sum},
    {"min", extreme<false>}, {"max", extreme<true>},
};

} // namespace

Filter find_list_filter(std::string_view name) {
  for (const auto& row : list_rows)
    if (row.name == name)
      return row.filter;
  return nullptr;
}

} // namespace llm::chat

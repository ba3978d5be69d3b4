// Arguments, tests, and where filters are found.
#include <apps/llm/chat/filters.hpp>
#include <apps/llm/chat/methods.hpp>
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/text_forms.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::chat {

namespace {

/// A test that takes nothing but its subject.
template <bool (*Decide)(const Value&)>
Result<bool> is_bare(Budget&, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "a test", {}));
  return Decide(subject);
}

template <class T>
bool is_a(const Value& value) {
  return value.is<T>();
}

template <bool Wanted>
bool is_constant(const Value& value) {
  const auto* flag = value.as<bool>();
  return flag != nullptr && *flag == Wanted;
}

bool is_defined(const Value& value) {
  return !value.is<Undefined>();
}

bool is_sequence(const Value& value) {
  return value.is<Text>() || value.items() != nullptr || value.is<Dict>() || value.is<Range>() || value.is<Undefined>();
}

Result<bool> is_divisible(const Value& subject, const Value& by, std::int64_t rest) {
  const auto number = whole_of(subject);
  const auto divisor = whole_of(by);
  if (!number || !divisor)
    return subject.is<double>() || by.is<double>()
               ? Result<bool>{unknown("asks whether a number that is not whole can be divided")}
               : Result<bool>{
                   wrong(fmt::format("asks whether {} can be divided by {}", kind_of(subject), kind_of(by)))};
  if (*divisor == 0)
    return wrong("divides by zero");
  if (*divisor == -1)
    return true;
  const auto left = *number % *divisor;
  return (left != 0 && (left < 0) != (*divisor < 0) ? left + *divisor : left) == rest;
}

template <std::int64_t Rest>
Result<bool> has_rest(Budget&, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "a test", {}));
  return is_divisible(subject, Value{std::int64_t{2}}, Rest);
}

template <Result<bool> (*Compare)(Budget&, const Value&, const Value&)>
Result<bool> is_compared(Budget& budget, const Value& subject, const Arguments& arguments) {
  if (!arguments.named.empty())
    return unknown("calls a test with an argument that has a name");
  GPUACTORS_LET(given, bind(arguments, "a test", {"other"}, 1));
  return Compare(budget, subject, *given[0]);
}

template <class Decide>
Result<bool> decide(Budget& budget, const Value& left, const Value& right, Decide decide) {
  GPUACTORS_LET(ordered, order(budget, left, right));
  return decide(ordered);
}

struct TestRow {
  std::string_view name;
  Test test;
};

Result<bool> unequal(Budget& budget, const Value& left, const Value& right) {
  GPUACTORS_LET(is_same, equal(budget, left, right));
  return !is_same;
}

constexpr auto is_less = is_compared<[](Budget& budget, const Value& left, const Value& right) {
  return decide(budget, left, right, [](int ordered) { return ordered < 0; });
}>;
constexpr auto is_less_or_equal = is_compared<[](Budget& budget, const Value& left, const Value& right) {
  return decide(budget, left, right, [](int ordered) { return ordered <= 0; });
}>;
constexpr auto is_greater = is_compared<[](Budget& budget, const Value& left, const Value& right) {
  return decide(budget, left, right, [](int ordered) { return ordered > 0; });
}>;
constexpr auto is_greater_or_equal = is_compared<[](Budget& budget, const Value& left, const Value& right) {
  return decide(budget, left, right, [](int ordered) { return ordered >= 0; });
}>;
constexpr auto is_in = is_compared<[](Budget& budget, const Value& value, const Value& container) {
  return contains(budget, container, value);
}>;
constexpr auto is_divisible_by =
    is_compared<[](Budget&, const Value& value, const Value& by) { return is_divisible(value, by, 0); }>;

constexpr TestRow tests[] = {
    {"defined", is_bare<is_defined>},
    {"undefined", is_bare<is_a<Undefined>>},
    {"none", is_bare<is_a<None>>},
    {"boolean", is_bare<is_a<bool>>},
    {"true", is_bare<is_constant<true>>},
    {"false", is_bare<is_constant<false>>},
    {"integer", is_bare<is_a<std::int64_t>>},
    {"float", is_bare<is_a<double>>},
    {"string", is_bare<is_a<Text>>},
    {"mapping", is_bare<is_a<Dict>>},
    {"number", is_bare<is_number>},
    {"sequence", is_bare<is_sequence>},
    {"iterable", is_bare<can_iterate>},
    {"odd", has_rest<1>},
    {"even", has_rest<0>},
    {"divisibleby", is_divisible_by},
    {"eq", is_compared<equal>},
    {"equalto", is_compared<equal>},
    {"==", is_compared<equal>},
    {"ne", is_compared<unequal>},
    {"!=", is_compared<unequal>},
    {"lt", is_less},
    {"lessthan", is_less},
    {"<", is_less},
    {"le", is_less_or_equal},
    {"<=", is_less_or_equal},
    {"gt", is_greater},
    {"greaterthan", is_greater},
    {">", is_greater},
    {"ge", is_greater_or_equal},
    {">=", is_greater_or_equal},
    {"in", is_in},
};

} // namespace

Result<std::vector<std::optional<Value>>> bind(const Arguments& arguments, std::string_view function,
                                               std::initializer_list<std::string_view> parameters, std::size_t needed) {
  if (arguments.values.size() > parameters.size())
    return wrong(fmt::format("calls {} with {} arguments; it takes {} at most", function, arguments.values.size(),
                             parameters.size()));
  std::vector<std::optional<Value>> given(parameters.size());
  std::copy(arguments.values.begin(), arguments.values.end(), given.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    if (found == parameters.end() || given[index])
      return wrong(fmt::format("calls {} with the argument {}, which it does not take so", function, name));
    given[index] = value;
  }
  for (std::size_t i = 0; i < needed; ++i)
    if (!given[i])
      return wrong(fmt::format("calls {} without its argument {}", function, i + 1));
  return given;
}

Filter find_filter(std::string_view name) {
  if (const auto found = find_text_filter(name))
    return found;
  if (const auto found = find_list_filter(name))
    return found;
  return find_lazy_filter(name);
}

Test find_test(std::string_view name) {
  for (const auto& row : tests)
    if (row.name == name)
      return row.test;
  return nullptr;
}

Result<Value> look_up(Budget& budget, const Value& item, const Value& attribute,
                      const std::optional<Value>& otherwise) {
  const auto follow = [&](const Value& value, const Value& key) -> Result<Value> {
    GPUACTORS_LET(found, item_of(budget, value, key));
    return otherwise && !otherwise->is<None>() && found.is<Undefined>() ? *otherwise : found;
  };
  const auto* path = attribute.text();
  if (path == nullptr)
    return attribute.is<None>() ? item : follow(item, attribute);
  GPUACTORS_TRY(budget.read(path->size()));
  if (!std::all_of(path->begin(), path->end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })
      && path->find_first_of("0123456789.") != std::string::npos)
    return unknown("looks an attribute up whose name has digits or points, and is not ASCII");
  auto value = item;
  for (std::size_t begin = 0; begin <= path->size();) {
    const auto end = std::min(path->find('.', begin), path->size());
    const auto part = path->substr(begin, end - begin);
    const bool is_index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (is_index && part.size() > 15)
      return unknown("looks up an index of more than 15 digits");
    GPUACTORS_LET(found, follow(value, is_index ? Value{std::int64_t{std::stoll(part)}} : text_value(part)));
    value = found;
    begin = end + 1;
  }
  return value;
}

Result<Value> without_case(Budget& budget, const Value& value) {
  if (!value.is<Text>())
    return value;
  GPUACTORS_TRY(budget.read(value.text()->size()));
  return make_lower(budget, *value.text());
}

bool is_set(const std::optional<Value>& argument) {
  return argument && is_true(*argument);
}

} // namespace llm::chat

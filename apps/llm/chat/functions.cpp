// range, dict, namespace, raise_exception and strftime_now.
#include <apps/llm/chat/functions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llm::chat {

namespace {

using Named = std::vector<std::pair<Value, Value>>;

/// Jinja's sandbox makes none longer.
constexpr std::int64_t longest_range = 100'000;

Result<Value> make_range(const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.values.empty() || arguments.values.size() > 3)
    return wrong("calls range() with other than one to three numbers");
  std::array<std::int64_t, 3> numbers = {0, 0, 1};
  for (std::size_t i = 0; i < arguments.values.size(); ++i) {
    const auto number = whole_of(arguments.values[i]);
    if (!number)
      return wrong(fmt::format("calls range() with {}", kind_of(arguments.values[i])));
    numbers[arguments.values.size() == 1 ? 1 : i] = *number;
  }
  const auto [start, stop, step] = numbers;
  if (step == 0)
    return wrong("calls range() with a step of 0");
  constexpr std::int64_t most = std::int64_t{1} << 61;
  if (std::max({std::abs(start / 2), std::abs(stop / 2), std::abs(step / 2)}) > most / 2)
    return unknown("calls range() with numbers of more than 61 bits");
  const auto distance = step > 0 ? stop - start : start - stop;
  const auto stride = std::abs(step);
  const auto length = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (length > longest_range)
    return wrong(fmt::format("calls range() for {} numbers; the sandbox makes {} at most", length, longest_range));
  return Value{Range{start, stop, step, length}};
}

/// The pairs that dict() and namespace() are called with.
Result<Named> collect_pairs(Budget& budget, const Arguments& arguments) {
  Named pairs;
  if (arguments.values.size() > 1)
    return wrong("makes a dict of more than one value");
  if (!arguments.values.empty()) {
    if (const auto* undefined = arguments.values[0].as<Undefined>())
      return wrong(*undefined->why);
    if (const auto* entries = arguments.values[0].entries()) {
      pairs = entries->pairs;
    } else {
      GPUACTORS_LET(values, all_of(budget, arguments.values[0]));
      for (const auto& value : values) {
        GPUACTORS_LET(pair, all_of(budget, value));
        if (pair.size() != 2)
          return wrong("makes a dict of what are no pairs");
        GPUACTORS_TRY(set_entry(budget, pairs, pair[0], pair[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    GPUACTORS_TRY(set_entry(budget, pairs, text_value(name), value));
  return pairs;
}

Result<Value> make_space(Budget& budget, Surroundings& surroundings, const Arguments& arguments) {
  GPUACTORS_LET(pairs, collect_pairs(budget, arguments));
  GPUACTORS_TRY(budget.take(sizeof(Namespace) + pairs.size() * (sizeof(Value) + sizeof(std::string))));
  Namespace space;
  for (const auto& [key, value] : pairs) {
    const auto* name = key.text();
    if (name == nullptr)
      return unknown(fmt::format("makes a namespace with {} as a name", kind_of(key)));
    if (name->starts_with("_"))
      return wrong(fmt::format("makes a namespace with the name {}, which begins with _", *name));
    space.attributes.emplace_back(*name, value);
  }
  return Value{NamespaceRef{&surroundings.namespaces.emplace_back(std::move(space))}};
}

Result<Value> raise(Budget& budget, Surroundings& surroundings, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "raise_exception()", {"message"}, 1));
  GPUACTORS_LET(text, to_text(budget, *given[0]));
  surroundings.was_raised = true;
  return wrong(*text);
}

Result<Value> tell_time(Budget& budget, const Surroundings& surroundings, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "strftime_now()", {"format"}, 1));
  const auto* format = given[0]->text();
  if (format == nullptr)
    return wrong(fmt::format("calls strftime_now() with {}", kind_of(*given[0])));
  if (!surroundings.now)
    return unknown("asks for the time, which it is not told here");
  GPUACTORS_LET(text, print_time(*surroundings.now, *format));
  return make_text(budget, std::move(text));
}

} // namespace

std::optional<Function> find_function(std::string_view name) {
  constexpr std::pair<std::string_view, Function> functions[] = {{"range", Function::range},
                                                                 {"dict", Function::dict},
                                                                 {"namespace", Function::make_namespace},
                                                                 {"raise_exception", Function::raise_exception},
                                                                 {"strftime_now", Function::strftime_now}};
  for (const auto& [one, function] : functions)
    if (one == name)
      return function;
  return std::nullopt;
}

Result<Value> call_function(Budget& budget, Surroundings& surroundings, Function function, const Arguments& arguments) {
  switch (function) {
  case Function::range:
    return make_range(arguments);
  case Function::dict: {
    GPUACTORS_LET(pairs, collect_pairs(budget, arguments));
    return make_dict(budget, std::move(pairs));
  }
  case Function::make_namespace:
    return make_space(budget, surroundings, arguments);
  case Function::raise_exception:
    return raise(budget, surroundings, arguments);
  case Function::strftime_now:
    break;
  }
  return tell_time(budget, surroundings, arguments);
}

bool is_loop_attribute(std::string_view name) {
  constexpr std::string_view names[] = {"index", "index0", "revindex", "revindex0", "first", "last",   "length",
                                        "depth", "depth0", "previtem", "nextitem",  "cycle", "changed"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

} // namespace llm::chat

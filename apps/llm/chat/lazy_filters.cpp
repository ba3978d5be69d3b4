// Filters that return generators: each value is made when it is asked for, and once only.
#include <apps/llm/chat/filters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace llm::chat {

namespace {

/// What becomes of a value, or null if it is left out.
using Step = std::function<Result<std::optional<Value>>(Budget&, const Value&)>;

class Lazy : public Iterator {
public:
  Lazy(Value source, Step step, int depth) : source_(std::move(source)), step_(std::move(step)), depth_(depth) {
    // nop
  }

  Result<bool> next(Budget& budget, Value& value) override {
    if (iterator_ == nullptr) {
      GPUACTORS_LET(iterator, iterate(is_true(source_) ? source_ : undefined("")));
      iterator_ = std::move(iterator);
    }
    for (;;) {
      Value one;
      GPUACTORS_LET(has_one, iterator_->next(budget, one));
      if (!has_one)
        return false;
      GPUACTORS_LET(made, step_(budget, one));
      if (!made)
        continue;
      value = std::move(*made);
      return true;
    }
  }

  [[nodiscard]] int depth() const override {
    return depth_;
  }

private:
  Value source_;
  Step step_;
  int depth_;
  std::shared_ptr<Iterator> iterator_;
};

Result<Value> make_lazy(Budget& budget, const Value& source, const Arguments& arguments, Step step) {
  GPUACTORS_TRY(budget.take(sizeof(Lazy)));
  int depth = depth_of(source);
  for (const auto& value : arguments.values)
    depth = std::max(depth, depth_of(value));
  for (const auto& [name, value] : arguments.named)
    depth = std::max(depth, depth_of(value));
  return make_generator(std::make_shared<Lazy>(source, std::move(step), depth + 1));
}

/// The arguments behind the first ones.
Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.values.erase(rest.values.begin(), rest.values.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

Result<Value> map(Budget& budget, const Value& subject, const Arguments& arguments) {
  if (arguments.values.empty()) {
    GPUACTORS_LET(given, bind(arguments, "map", {"attribute", "default"}, 1));
    return make_lazy(budget, subject, arguments,
                     [attribute = *given[0], otherwise = given[1]](Budget& within,
                                                                   const Value& value) -> Result<std::optional<Value>> {
                       GPUACTORS_LET(found, look_up(within, value, attribute, otherwise));
                       return std::optional{found};
                     });
  }
  const auto* name = arguments.values[0].text();
  const auto filter = name == nullptr ? nullptr : find_filter(*name);
  if (filter == nullptr || *name == "safe")
    return unknown(fmt::format("maps by {}, which is no filter known here", name == nullptr ? "something" : *name));
  return make_lazy(
      budget, subject, arguments,
      [filter, rest = without_first(arguments, 1)](Budget& within, const Value& value) -> Result<std::optional<Value>> {
        GPUACTORS_LET(made, filter(within, value, rest));
        return std::optional{made};
      });
}

template <bool IsKept, bool HasAttribute>
Result<Value> select(Budget& budget, const Value& subject, const Arguments& arguments) {
  constexpr std::size_t before = HasAttribute ? 1 : 0;
  if (arguments.values.size() < before)
    return wrong("selects without the name of an attribute");
  Value attribute{None{}};
  if (HasAttribute)
    attribute = arguments.values[0];
  Test test = nullptr;
  Arguments rest;
  if (arguments.values.size() > before) {
    const auto* name = arguments.values[before].text();
    test = name == nullptr ? nullptr : find_test(*name);
    if (test == nullptr)
      return unknown(fmt::format("selects by {}, which is no test known here", name == nullptr ? "something" : *name));
    rest = without_first(arguments, before + 1);
  }
  return make_lazy(budget, subject, arguments,
                   [attribute, test, rest](Budget& within, const Value& value) -> Result<std::optional<Value>> {
                     GPUACTORS_LET(tested, look_up(within, value, attribute));
                     GPUACTORS_LET(is_so, test == nullptr ? Result<bool>{is_true(tested)} : test(within, tested, rest));
                     return is_so == IsKept ? std::optional{value} : std::nullopt;
                   });
}

Result<Value> unique(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_LET(given, bind(arguments, "unique", {"case_sensitive", "attribute"}));
  if (!can_iterate(subject))
    return wrong(fmt::format("goes through {}, which holds no values", kind_of(subject)));
  auto seen = std::make_shared<std::vector<std::pair<Value, Value>>>();
  return make_lazy(budget, subject, arguments,
                   [seen = std::move(seen), has_case = is_set(given[0]), attribute = given[1].value_or(Value{None{}})](
                       Budget& within, const Value& value) -> Result<std::optional<Value>> {
                     GPUACTORS_LET(found, look_up(within, value, attribute));
                     GPUACTORS_LET(key, has_case ? Result<Value>{found} : without_case(within, found));
                     const auto before = seen->size();
                     GPUACTORS_TRY(set_entry(within, *seen, key, Value{None{}}));
                     return seen->size() > before ? std::optional{value} : std::nullopt;
                   });
}

Result<Value> items(Budget& budget, const Value& subject, const Arguments& arguments) {
  GPUACTORS_TRY(bind(arguments, "items", {}));
  const auto* dict = subject.as<Dict>();
  if (dict == nullptr && !subject.is<Undefined>())
    return wrong(fmt::format("asks for the items of {}", kind_of(subject)));
  const auto source = dict == nullptr ? subject : Value{View{View::Kind::items, dict->entries}};
  return make_lazy(budget, source, arguments,
                   [](Budget&, const Value& value) -> Result<std::optional<Value>> { return std::optional{value}; });
}

constexpr FilterRow lazy_rows[] = {
    {"map", map},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
    {"unique", unique},
    {"items", items},
};

} // namespace

Filter find_lazy_filter(std::string_view name) {
  for (const auto& row : lazy_rows)
    if (row.name == name)
      return row.filter;
  return nullptr;
}

} // namespace llm::chat

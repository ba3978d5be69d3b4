// Which values are equal, which comes first, and what is in what.
#include <apps/llm/chat/text.hpp>
#include <apps/llm/chat/value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace llm::chat {

namespace {

// It holds whole numbers of 64 bits and doubles as they are, as Python compares them.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

Exact exact(const Value& value) {
  if (const auto* number = value.as<double>())
    return *number;
  return static_cast<Exact>(*whole_of(value));
}

Result<bool> equal_items(Budget& budget, const Items& left, const Items& right) {
  if (&left == &right)
    return true;
  if (left.values.size() != right.values.size())
    return false;
  for (std::size_t i = 0; i < left.values.size(); ++i) {
    GPUACTORS_LET(is_same, equal(budget, left.values[i], right.values[i]));
    if (!is_same)
      return false;
  }
  return true;
}

Result<bool> equal_entries(Budget& budget, const Entries& left, const Entries& right) {
  if (&left == &right)
    return true;
  if (left.pairs.size() != right.pairs.size())
    return false;
  for (const auto& [key, value] : left.pairs) {
    GPUACTORS_LET(other, find_entry(budget, right, key));
    if (other == nullptr)
      return false;
    GPUACTORS_LET(is_same, equal(budget, value, *other));
    if (!is_same)
      return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  return left.length == right.length
         && (left.length == 0 || (left.start == right.start && (left.length == 1 || left.step == right.step)));
}

Result<int> order_items(Budget& budget, const Items& left, const Items& right) {
  const auto both = std::min(left.values.size(), right.values.size());
  for (std::size_t i = 0; i < both; ++i) {
    GPUACTORS_LET(is_same, equal(budget, left.values[i], right.values[i]));
    if (!is_same)
      return order(budget, left.values[i], right.values[i]);
  }
  return left.values.size() < right.values.size() ? -1 : left.values.size() > right.values.size() ? 1 : 0;
}

} // namespace

Result<bool> equal(Budget& budget, const Value& left, const Value& right) {
  GPUACTORS_TRY(budget.step());
  if (is_number(left) && is_number(right))
    return exact(left) == exact(right);
  if (left.state.index() != right.state.index())
    return false;
  if (const auto* text = left.text()) {
    GPUACTORS_TRY(budget.look(text->size()));
    return *text == *right.text();
  }
  if (const auto* items = left.items())
    return equal_items(budget, *items, *right.items());
  if (const auto* entries = left.entries())
    return equal_entries(budget, *entries, *right.entries());
  if (const auto* range = left.as<Range>())
    return equal_ranges(*range, *right.as<Range>());
  if (const auto* space = left.as<NamespaceRef>())
    return space->space == right.as<NamespaceRef>()->space;
  if (left.is<None>() || left.is<Undefined>())
    return true;
  return unknown(fmt::format("compares {} with another", kind_of(left)));
}

Result<int> order(Budget& budget, const Value& left, const Value& right) {
  GPUACTORS_TRY(budget.step());
  if (is_number(left) && is_number(right)) {
    const auto a = exact(left);
    const auto b = exact(right);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (left.is<Text>() && right.is<Text>()) {
    // The bytes of UTF-8 have the order of the characters.
    GPUACTORS_TRY(budget.look(left.text()->size()));
    return left.text()->compare(*right.text());
  }
  if (left.state.index() == right.state.index() && left.items() != nullptr)
    return order_items(budget, *left.items(), *right.items());
  for (const auto* value : {&left, &right})
    if (const auto* undefined = value->as<Undefined>())
      return wrong(*undefined->why);
  return wrong(fmt::format("asks whether {} comes before {}, which have no order", kind_of(left), kind_of(right)));
}

Result<bool> contains(Budget& budget, const Value& container, const Value& value) {
  if (const auto* text = container.text()) {
    const auto* part = value.text();
    if (part == nullptr)
      return wrong(fmt::format("looks for {} in a text", kind_of(value)));
    GPUACTORS_TRY(budget.look(text->size() + part->size()));
    return find_part(*text, *part) != std::string_view::npos;
  }
  const auto* view = container.as<View>();
  if (view != nullptr && view->kind == View::Kind::items)
    return unknown("looks for something in items()");
  const bool is_keys = view != nullptr && view->kind == View::Kind::keys;
  if (container.is<Dict>() || is_keys) {
    GPUACTORS_LET(found, find_entry(budget, is_keys ? *view->entries : *container.entries(), value));
    return found != nullptr;
  }
  if (!can_iterate(container))
    return wrong(fmt::format("looks for something in {}", kind_of(container)));
  GPUACTORS_LET(iterator, iterate(container));
  Value one;
  for (;;) {
    GPUACTORS_LET(has_one, iterator->next(budget, one));
    if (!has_one)
      return false;
    GPUACTORS_LET(is_same, equal(budget, one, value));
    if (is_same)
      return true;
  }
}

} // namespace llm::chat

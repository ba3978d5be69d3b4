#include <gpuactors/ledger/label.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

bool LabelCondition::holds(const std::string* value) const noexcept {
  const auto is_listed = [&] { return std::find(values.begin(), values.end(), *value) != values.end(); };
  switch (op) {
  case Op::in:
    return value != nullptr && is_listed();
  case Op::not_in:
    return value == nullptr || !is_listed();
  case Op::exists:
    return value != nullptr;
  case Op::absent:
    return value == nullptr;
  }
  return false;
}

std::string to_string(const LabelCondition& condition) {
  switch (condition.op) {
  case LabelCondition::Op::in:
    return condition.is_exact() ? condition.values.front() : fmt::format("in [{}]", fmt::join(condition.values, ", "));
  case LabelCondition::Op::not_in:
    return fmt::format("not in [{}]", fmt::join(condition.values, ", "));
  case LabelCondition::Op::exists:
    return "any value";
  case LabelCondition::Op::absent:
    return "no such label";
  }
  return {};
}

} // namespace gpuactors

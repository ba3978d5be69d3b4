// Conditions of a request on the labels of a node.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// A condition on the value of one label.
struct LabelCondition {
  enum class Op : std::uint8_t {
    /// The node has the label, with one of `values`.
    in,
    /// The node has the label with none of `values`, or does not have it at all.
    not_in,
    /// The node has the label, whatever its value.
    exists,
    /// The node does not have the label.
    absent,
  };

  LabelCondition() = default;

  LabelCondition(Op op, std::vector<std::string> values = {}) : op(op), values(std::move(values)) {
    // nop
  }

  /// The label must have exactly this value.
  LabelCondition(std::string value) : values{std::move(value)} {
    // nop
  }

  /// The label must have exactly this value.
  LabelCondition(const char* value) : values{std::string{value}} {
    // nop
  }

  /// Returns whether the condition allows exactly one value.
  [[nodiscard]] bool is_exact() const noexcept {
    return op == Op::in && values.size() == 1;
  }

  /// Returns whether the condition holds for a label with this value; null stands for a node without the label.
  [[nodiscard]] bool holds(const std::string* value) const noexcept;

  Op op = Op::in;
  /// The values that `in` allows or `not_in` excludes.
  std::vector<std::string> values;

  friend bool operator==(const LabelCondition&, const LabelCondition&) = default;
  friend std::strong_ordering operator<=>(const LabelCondition&, const LabelCondition&) = default;
};

/// Conditions by the name of the label; all must hold.
using LabelConditions = std::map<std::string, LabelCondition>;

/// Renders "a", "in [a, c]", "not in [a, c]", "any value" or "no such label". Any thread.
[[nodiscard]] std::string to_string(const LabelCondition& condition);

} // namespace gpuactors

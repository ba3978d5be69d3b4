// What + - * / // % do with values.
#pragma once

#include <apps/llm/chat/syntax.hpp>
#include <apps/llm/chat/value.hpp>

namespace llm::chat {

/// @param sign is one of the arithmetic ones.
Result<Value> compute(Budget& budget, Operator sign, const Value& left, const Value& right);

/// A value with a minus, or with a plus, before it.
Result<Value> compute_sign(bool is_minus, const Value& value);

/// The number as a value; an error if it is not finite, which Python and Jinja write in different ways.
Result<Value> finite(double number);

} // namespace llm::chat

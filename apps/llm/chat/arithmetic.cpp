// Numbers as in Python: whole ones stay whole, and // and % round down. They end at 64 bits here.
#include <apps/llm/chat/arithmetic.hpp>

#include <fmt/format.h>

#include <cmath>

namespace llm::chat {

namespace {

gpuactors::Failure too_large() {
  return unknown("computes a whole number of more than 64 bits");
}

Result<Value> compute_whole(Operator sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool is_over = false;
  switch (sign) {
  case Operator::add:
    is_over = __builtin_add_overflow(left, right, &result);
    break;
  case Operator::subtract:
    is_over = __builtin_sub_overflow(left, right, &result);
    break;
  case Operator::multiply:
    is_over = __builtin_mul_overflow(left, right, &result);
    break;
  default:
    if (right == 0)
      return wrong("divides by zero");
    if (right == -1) { // the one quotient that may be too large
      is_over = sign == Operator::floor_divide && __builtin_sub_overflow(std::int64_t{0}, left, &result);
      break;
    }
    result = sign == Operator::modulo ? left % right : left / right;
    if (left % right != 0 && (left % right < 0) != (right < 0))
      result += sign == Operator::modulo ? right : -1;
  }
  if (is_over)
    return too_large();
  return Value{result};
}

Result<double> to_double(const Value& value) {
  if (const auto* number = value.as<double>())
    return *number;
  return static_cast<double>(*whole_of(value));
}

Result<Value> compute_numbers(Operator sign, double left, double right) {
  switch (sign) {
  case Operator::add:
    return finite(left + right);
  case Operator::subtract:
    return finite(left - right);
  case Operator::multiply:
    return finite(left * right);
  default:
    break;
  }
  if (right == 0)
    return wrong("divides by zero");
  if (sign == Operator::divide)
    return finite(left / right);
  auto rest = std::fmod(left, right);
  auto quotient = (left - rest) / right;
  if (rest != 0 && (right < 0) != (rest < 0)) {
    rest += right;
    quotient -= 1;
  }
  if (sign == Operator::modulo)
    return finite(rest != 0 ? rest : std::copysign(0.0, right));
  if (quotient == 0)
    return finite(std::copysign(0.0, left / right));
  const auto down = std::floor(quotient);
  return finite(quotient - down > 0.5 ? down + 1 : down);
}

Result<Value> repeat(Budget& budget, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
  const auto* text = value.text();
  const auto size = text != nullptr ? text->size() : value.items()->values.size() * sizeof(Value);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes))
    bytes = ~std::uint64_t{0};
  GPUACTORS_TRY(budget.take(bytes));
  if (text != nullptr) {
    std::string result;
    result.reserve(bytes);
    for (std::uint64_t i = 0; i < count && size > 0; ++i)
      result += *text;
    return text_value(std::move(result));
  }
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < count && size > 0; ++i)
    values.insert(values.end(), value.items()->values.begin(), value.items()->values.end());
  return value.is<List>() ? make_list(budget, std::move(values)) : make_tuple(budget, std::move(values));
}

Result<Value> append(Budget& budget, const Value& left, const Value& right) {
  if (const auto* text = left.text()) {
    GPUACTORS_TRY(budget.take(text->size() + right.text()->size()));
    return text_value(*text + *right.text());
  }
  auto values = left.items()->values;
  values.insert(values.end(), right.items()->values.begin(), right.items()->values.end());
  return left.is<List>() ? make_list(budget, std::move(values)) : make_tuple(budget, std::move(values));
}

bool can_be_joined(const Value& value) {
  return value.is<Text>() || value.items() != nullptr;
}

} // namespace

Result<Value> finite(double number) {
  if (!std::isfinite(number))
    return unknown("computes a number that is not finite");
  return Value{number};
}

Result<Value> compute(Budget& budget, Operator sign, const Value& left, const Value& right) {
  for (const auto* value : {&left, &right})
    if (const auto* undefined = value->as<Undefined>())
      return wrong(*undefined->why);
  const auto a = whole_of(left);
  const auto b = whole_of(right);
  if (is_number(left) && is_number(right)) {
    if (a && b && sign != Operator::divide)
      return compute_whole(sign, *a, *b);
    constexpr std::int64_t exact = std::int64_t{1} << 53;
    if (a && b && (std::abs(*a / 2) > exact / 2 || std::abs(*b / 2) > exact / 2))
      return unknown("divides whole numbers above 2**53");
    GPUACTORS_LET(x, to_double(left));
    GPUACTORS_LET(y, to_double(right));
    return compute_numbers(sign, x, y);
  }
  if (sign == Operator::add && can_be_joined(left) && left.state.index() == right.state.index())
    return append(budget, left, right);
  if (sign == Operator::multiply && can_be_joined(left) && b)
    return repeat(budget, left, *b);
  if (sign == Operator::multiply && a && can_be_joined(right))
    return repeat(budget, right, *a);
  if (sign == Operator::modulo && left.is<Text>())
    return unknown("formats a text by %");
  return wrong(fmt::format("computes {} {} {}", kind_of(left), name_of(sign), kind_of(right)));
}

Result<Value> compute_sign(bool is_minus, const Value& value) {
  if (const auto* undefined = value.as<Undefined>())
    return wrong(*undefined->why);
  if (const auto* number = value.as<double>())
    return Value{is_minus ? -*number : *number};
  const auto whole = whole_of(value);
  if (!whole)
    return wrong(fmt::format("puts a sign before {}", kind_of(value)));
  return is_minus ? compute_whole(Operator::subtract, 0, *whole) : Result<Value>{Value{*whole}};
}

} // namespace llm::chat

// Expressions and calls.
#include <apps/llm/chat/arithmetic.hpp>
#include <apps/llm/chat/evaluator.hpp>
#include <apps/llm/chat/methods.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llm::chat {

namespace {

using Kind = Expression::Kind;

} // namespace

Result<Value> Evaluator::evaluate(const Expression& expression) {
  const auto begun = go_deeper();
  auto value = begun ? evaluate_kind(expression) : Result<Value>{gpuactors::fail(begun.error())};
  if (begun)
    --depth_;
  if (!value && line_ == 0)
    line_ = expression.line;
  return value;
}

Result<Value> Evaluator::evaluate_kind(const Expression& expression) {
  GPUACTORS_TRY(budget_->step());
  const auto& parts = expression.parts;
  switch (expression.kind) {
  case Kind::constant:
    return expression.constant;
  case Kind::name:
    return evaluate_name(expression);
  case Kind::attribute:
    return evaluate_attribute(expression);
  case Kind::slice:
    return evaluate_slice(expression);
  case Kind::call:
    return evaluate_call(expression);
  case Kind::filter:
    return evaluate_filter(expression);
  case Kind::test:
    return evaluate_test(expression);
  case Kind::comparison:
    return evaluate_comparison(expression);
  case Kind::joined:
    return evaluate_joined(expression);
  case Kind::negation: {
    GPUACTORS_LET(value, evaluate(*parts[0]));
    return Value{!is_true(value)};
  }
  case Kind::both:
  case Kind::either: {
    GPUACTORS_LET(value, evaluate(*parts[0]));
    return is_true(value) == (expression.kind == Kind::either) ? Result<Value>{value} : evaluate(*parts[1]);
  }
  case Kind::choice: {
    GPUACTORS_LET(condition, evaluate(*parts[0]));
    if (!is_true(condition) && parts[2] == nullptr)
      return undefined("uses the value of an if without else, whose condition is false");
    return evaluate(*parts[is_true(condition) ? 1 : 2]);
  }
  default:
    return evaluate_parts(expression);
  }
}

/// Of expressions that need the values of all their parts.
Result<Value> Evaluator::evaluate_parts(const Expression& expression) {
  std::vector<Value> values;
  for (const auto& part : expression.parts) {
    GPUACTORS_LET(value, evaluate(*part));
    values.push_back(std::move(value));
  }
  switch (expression.kind) {
  case Kind::list:
    return make_list(*budget_, std::move(values));
  case Kind::tuple:
    return make_tuple(*budget_, std::move(values));
  case Kind::item:
    return item_of(*budget_, values[0], values[1]);
  case Kind::minus:
  case Kind::plus:
    return compute_sign(expression.kind == Kind::minus, values[0]);
  case Kind::arithmetic:
    return compute(*budget_, expression.operators[0], values[0], values[1]);
  default:
    break;
  }
  std::vector<std::pair<Value, Value>> pairs;
  for (std::size_t i = 0; i < values.size(); i += 2)
    GPUACTORS_TRY(set_entry(*budget_, pairs, std::move(values[i]), std::move(values[i + 1])));
  return make_dict(*budget_, std::move(pairs));
}

Result<Value> Evaluator::evaluate_name(const Expression& name) {
  const auto& value = at(name.place);
  if (!value.is<Missing>())
    return value;
  return make_undefined(*budget_, fmt::format("uses {}, which is undefined", shown_name(name.name)));
}

Result<Value> Evaluator::evaluate_attribute(const Expression& attribute) {
  GPUACTORS_LET(value, evaluate(*attribute.parts[0]));
  if (const auto* loop = value.as<LoopRef>())
    return loop->loop->attribute(*budget_, attribute.name);
  return attribute_of(*budget_, value, attribute.name);
}

Result<Value> Evaluator::evaluate_slice(const Expression& slice) {
  GPUACTORS_LET(value, evaluate(*slice.parts[0]));
  std::optional<Value> bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (const auto& part = slice.parts[i + 1]; part != nullptr) {
      GPUACTORS_LET(bound, evaluate(*part));
      bounds[i] = std::move(bound);
    }
  return slice_of(*budget_, value, bounds[0], bounds[1], bounds[2]);
}

Result<Arguments> Evaluator::evaluate_arguments(const Expression& expression) {
  Arguments arguments;
  for (const auto& argument : expression.arguments) {
    GPUACTORS_LET(value, evaluate(*argument.value));
    if (argument.name.empty())
      arguments.values.push_back(std::move(value));
    else
      arguments.named.emplace_back(argument.name, std::move(value));
  }
  return arguments;
}

Result<Value> Evaluator::evaluate_call(const Expression& call) {
  const auto& callee = *call.parts[0];
  if (callee.kind == Kind::attribute && (callee.name == "cycle" || callee.name == "changed")) {
    GPUACTORS_LET(value, evaluate(*callee.parts[0]));
    if (const auto* loop = value.as<LoopRef>()) {
      GPUACTORS_LET(arguments, evaluate_arguments(call));
      if (!arguments.named.empty())
        return wrong(fmt::format("calls loop.{}() with an argument that has a name", callee.name));
      return callee.name == "cycle" ? loop->loop->cycle(arguments.values)
                                    : loop->loop->changed(*budget_, arguments.values);
    }
  }
  GPUACTORS_LET(called, evaluate(callee));
  GPUACTORS_LET(arguments, evaluate_arguments(call));
  if (const auto* method = called.as<Method>())
    return call_method(*budget_, *method, arguments);
  if (const auto* macro = called.as<MacroRef>())
    return call_macro(*macro, arguments);
  if (const auto* function = called.as<Function>())
    return call_function(*budget_, *surroundings_, *function, arguments);
  if (const auto* undefined = called.as<Undefined>())
    return wrong(*undefined->why);
  return wrong(fmt::format("calls {}", kind_of(called)));
}

Result<Value> Evaluator::evaluate_filter(const Expression& filter) {
  const auto* subject = filter.parts[0].get();
  GPUACTORS_LET(value, subject == nullptr ? Result<Value>{*captured_} : evaluate(*subject));
  GPUACTORS_LET(arguments, evaluate_arguments(filter));
  return find_filter(filter.name)(*budget_, value, arguments);
}

Result<Value> Evaluator::evaluate_test(const Expression& test) {
  GPUACTORS_LET(value, evaluate(*test.parts[0]));
  GPUACTORS_LET(arguments, evaluate_arguments(test));
  GPUACTORS_LET(holds, find_test(test.name)(*budget_, value, arguments));
  return Value{holds};
}

Result<bool> Evaluator::compare(Operator sign, const Value& left, const Value& right) {
  if (sign == Operator::equal || sign == Operator::not_equal) {
    GPUACTORS_LET(is_same, equal(*budget_, left, right));
    return is_same == (sign == Operator::equal);
  }
  if (sign == Operator::in || sign == Operator::not_in) {
    GPUACTORS_LET(has_it, contains(*budget_, right, left));
    return has_it == (sign == Operator::in);
  }
  GPUACTORS_LET(ordered, order(*budget_, left, right));
  return sign == Operator::less         ? ordered < 0
         : sign == Operator::less_equal ? ordered <= 0
         : sign == Operator::greater    ? ordered > 0
                                        : ordered >= 0;
}

Result<Value> Evaluator::evaluate_comparison(const Expression& comparison) {
  GPUACTORS_LET(first, evaluate(*comparison.parts[0]));
  auto left = std::move(first);
  for (std::size_t i = 0; i < comparison.operators.size(); ++i) {
    GPUACTORS_LET(right, evaluate(*comparison.parts[i + 1]));
    GPUACTORS_LET(holds, compare(comparison.operators[i], left, right));
    if (!holds)
      return Value{false};
    left = std::move(right);
  }
  return Value{true};
}

Result<Value> Evaluator::evaluate_joined(const Expression& joined) {
  Writer writer{*budget_};
  for (const auto& part : joined.parts) {
    GPUACTORS_LET(value, evaluate(*part));
    GPUACTORS_TRY(write(writer, value));
  }
  return text_value(writer.release());
}

Result<void> Evaluator::fill_parameters(const Statement& macro, const Arguments& arguments, Environment& environment) {
  const auto& parameters = macro.parameters;
  if (arguments.values.size() > parameters.size())
    return wrong(fmt::format("calls the macro {} with {} arguments; it takes {} at most", macro.name,
                             arguments.values.size(), parameters.size()));
  for (std::size_t i = 0; i < arguments.values.size(); ++i)
    environment.slots[parameters[i].slot] = arguments.values[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(parameters.begin() + static_cast<std::ptrdiff_t>(arguments.values.size()), parameters.end(),
                     [&name = name](const Parameter& one) { return one.name == name; });
    if (found == parameters.end())
      return wrong(fmt::format("calls the macro {} with the argument {}, which it does not take so", macro.name, name));
    environment.slots[found->slot] = value;
  }
  return {};
}

Result<Value> Evaluator::call_macro(const MacroRef& macro, const Arguments& arguments) {
  const auto& statement = *macro.macro;
  Environment own;
  GPUACTORS_LET(inside, make_environment(statement.frame, macro.around, own));
  GPUACTORS_TRY(fill_parameters(statement, arguments, *inside));
  Writer writer{*budget_};
  auto* const outside = std::exchange(environment_, inside);
  auto* const output = std::exchange(output_, &writer);
  GPUACTORS_TRY(enter(statement.scope));
  for (const auto& parameter : statement.parameters) {
    auto& slot = inside->slots[parameter.slot];
    if (!slot.is<Missing>())
      continue;
    if (parameter.otherwise == nullptr) {
      GPUACTORS_LET(missing, make_undefined(*budget_, fmt::format("uses the parameter {}, which was not given",
                                                                  shown_name(parameter.name))));
      slot = std::move(missing);
    } else {
      GPUACTORS_LET(value, evaluate(*parameter.otherwise));
      slot = std::move(value);
    }
  }
  GPUACTORS_TRY(run(statement.body));
  environment_ = outside;
  output_ = output;
  return text_value(writer.release());
}

} // namespace llm::chat

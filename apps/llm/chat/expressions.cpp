// Operators, from those that bind least to those that bind most, and what they take.
#include <apps/llm/chat/expressions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llm::chat {

namespace {

using Kind = Expression::Kind;

struct Sign {
  std::string_view text;
  Operator sign;
};

constexpr std::array signs = {
    Sign{"+", Operator::add},         Sign{"-", Operator::subtract},      Sign{"*", Operator::multiply},
    Sign{"/", Operator::divide},      Sign{"//", Operator::floor_divide}, Sign{"%", Operator::modulo},
    Sign{"==", Operator::equal},      Sign{"!=", Operator::not_equal},    Sign{"<", Operator::less},
    Sign{"<=", Operator::less_equal}, Sign{">", Operator::greater},       Sign{">=", Operator::greater_equal},
    Sign{"in", Operator::in},         Sign{"not in", Operator::not_in},
};

/// The operator that a token is, if it is one from `first` to `last`.
std::optional<Operator> find_sign(const Token& token, Operator first, Operator last) {
  if (token.kind == Token::Kind::sign)
    for (const auto& one : signs)
      if (one.text == token.text && one.sign >= first && one.sign <= last)
        return one.sign;
  return std::nullopt;
}

} // namespace

std::string_view name_of(Operator sign) {
  return signs[static_cast<std::size_t>(sign)].text;
}

bool ExpressionReader::skip_name(std::string_view name) {
  if (!is_name(name))
    return false;
  skip();
  return true;
}

bool ExpressionReader::skip_sign(std::string_view sign) {
  if (!is_sign(sign))
    return false;
  skip();
  return true;
}

Result<void> ExpressionReader::expect_sign(std::string_view sign) {
  if (!skip_sign(sign))
    return unexpected(sign);
  return {};
}

Result<std::string> ExpressionReader::expect_name(std::string_view what) {
  if (now().kind != Token::Kind::name)
    return unexpected(what);
  auto name = now().text;
  skip();
  return name;
}

gpuactors::Failure ExpressionReader::unexpected(std::string_view wanted) const {
  const auto kind = now().kind;
  const std::string found = kind == Token::Kind::end                                            ? "the end"
                            : kind == Token::Kind::block_end || kind == Token::Kind::output_end ? "the end of the tag"
                                                                                                : now().text;
  return refuse_here(fmt::format("there is {} instead of {}", found, wanted));
}

Result<ExpressionPtr> ExpressionReader::make(Kind kind, int line, std::vector<ExpressionPtr> parts) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  for (const auto& part : parts)
    if (part != nullptr)
      expression->depth = std::max(expression->depth, part->depth + 1);
  expression->parts = std::move(parts);
  if (expression->depth > most_in_each_other)
    return refuse(line, fmt::format("there are more than {} expressions in each other", most_in_each_other));
  return expression;
}

Result<ExpressionPtr> ExpressionReader::with_arguments(ExpressionPtr expression,
                                                       std::vector<Argument> arguments) const {
  for (const auto& argument : arguments)
    expression->depth = std::max(expression->depth, argument.value->depth + 1);
  expression->arguments = std::move(arguments);
  if (expression->depth > most_in_each_other)
    return refuse(expression->line,
                  fmt::format("there are more than {} expressions in each other", most_in_each_other));
  return expression;
}

Result<ExpressionPtr> ExpressionReader::read_tuple(bool has_choice, bool is_in_brackets) {
  const auto line = now().line;
  std::vector<ExpressionPtr> parts;
  bool is_tuple = false;
  for (;;) {
    if (now().kind == Token::Kind::output_end || now().kind == Token::Kind::block_end || is_sign(")"))
      break;
    GPUACTORS_LET(part, read_expression(has_choice));
    parts.push_back(std::move(part));
    if (!skip_sign(","))
      break;
    is_tuple = true;
  }
  if (!is_tuple && parts.size() == 1)
    return std::move(parts.front());
  if (parts.empty() && !is_in_brackets)
    return unexpected("an expression");
  return make(Kind::tuple, line, std::move(parts));
}

Result<ExpressionPtr> ExpressionReader::read_expression(bool has_choice) {
  return has_choice ? read_choice() : read_either();
}

Result<ExpressionPtr> ExpressionReader::read_choice() {
  const Nested nested{depth_};
  const auto line = now().line;
  if (depth_ > most_in_each_other)
    return refuse(line, fmt::format("there are more than {} expressions in each other", most_in_each_other));
  GPUACTORS_LET(first, read_either());
  auto result = std::move(first);
  while (skip_name("if")) {
    GPUACTORS_LET(condition, read_either());
    ExpressionPtr otherwise;
    if (skip_name("else")) {
      GPUACTORS_LET(read, read_choice());
      otherwise = std::move(read);
    }
    GPUACTORS_LET(made, make_of(Kind::choice, line, std::move(condition), std::move(result), std::move(otherwise)));
    result = std::move(made);
  }
  return result;
}

Result<ExpressionPtr> ExpressionReader::read_either() {
  const auto line = now().line;
  GPUACTORS_LET(first, read_both());
  auto result = std::move(first);
  while (skip_name("or")) {
    GPUACTORS_LET(second, read_both());
    GPUACTORS_LET(made, make_of(Kind::either, line, std::move(result), std::move(second)));
    result = std::move(made);
  }
  return result;
}

Result<ExpressionPtr> ExpressionReader::read_both() {
  const auto line = now().line;
  GPUACTORS_LET(first, read_negation());
  auto result = std::move(first);
  while (skip_name("and")) {
    GPUACTORS_LET(second, read_negation());
    GPUACTORS_LET(made, make_of(Kind::both, line, std::move(result), std::move(second)));
    result = std::move(made);
  }
  return result;
}

Result<ExpressionPtr> ExpressionReader::read_negation() {
  const Nested nested{depth_};
  const auto line = now().line;
  if (depth_ > most_in_each_other)
    return refuse(line, fmt::format("there are more than {} expressions in each other", most_in_each_other));
  if (!skip_name("not"))
    return read_comparison();
  GPUACTORS_LET(part, read_negation());
  return make_of(Kind::negation, line, std::move(part));
}

Result<ExpressionPtr> ExpressionReader::read_comparison() {
  const auto line = now().line;
  GPUACTORS_LET(first, read_sum());
  std::vector<ExpressionPtr> parts;
  std::vector<Operator> operators;
  parts.push_back(std::move(first));
  for (;;) {
    auto sign = find_sign(now(), Operator::equal, Operator::greater_equal);
    if (is_name("in")) {
      sign = Operator::in;
    } else if (is_name("not") && after().kind == Token::Kind::name && after().text == "in") {
      sign = Operator::not_in;
      skip();
    }
    if (!sign)
      break;
    skip();
    GPUACTORS_LET(part, read_sum());
    parts.push_back(std::move(part));
    operators.push_back(*sign);
  }
  if (operators.empty())
    return std::move(parts.front());
  GPUACTORS_LET(made, make(Kind::comparison, line, std::move(parts)));
  made->operators = std::move(operators);
  return std::move(made);
}

Result<ExpressionPtr> ExpressionReader::read_sum() {
  const auto line = now().line;
  GPUACTORS_LET(first, read_joined());
  auto result = std::move(first);
  while (const auto sign = find_sign(now(), Operator::add, Operator::subtract)) {
    skip();
    GPUACTORS_LET(second, read_joined());
    GPUACTORS_LET(made, make_of(Kind::arithmetic, line, std::move(result), std::move(second)));
    made->operators = {*sign};
    result = std::move(made);
  }
  return result;
}

Result<ExpressionPtr> ExpressionReader::read_joined() {
  const auto line = now().line;
  std::vector<ExpressionPtr> parts;
  do {
    GPUACTORS_LET(part, read_product());
    parts.push_back(std::move(part));
  } while (skip_sign("~"));
  return parts.size() == 1 ? Result<ExpressionPtr>{std::move(parts.front())}
                           : make(Kind::joined, line, std::move(parts));
}

Result<ExpressionPtr> ExpressionReader::read_product() {
  const auto line = now().line;
  GPUACTORS_LET(first, read_signed(true));
  auto result = std::move(first);
  while (const auto sign = find_sign(now(), Operator::multiply, Operator::modulo)) {
    skip();
    GPUACTORS_LET(second, read_signed(true));
    if (sign == Operator::modulo && result->kind == Kind::constant && result->constant.is<Text>())
      return refuse(result->line, "a text is formatted by %");
    GPUACTORS_LET(made, make_of(Kind::arithmetic, line, std::move(result), std::move(second)));
    made->operators = {*sign};
    result = std::move(made);
  }
  if (is_sign("**"))
    return refuse_here("there is the operator **");
  return result;
}

Result<ExpressionPtr> ExpressionReader::read_signed(bool has_filters) {
  const Nested nested{depth_};
  const auto line = now().line;
  if (depth_ > most_in_each_other)
    return refuse(line, fmt::format("there are more than {} expressions in each other", most_in_each_other));
  const auto sign = find_sign(now(), Operator::add, Operator::subtract);
  ExpressionPtr result;
  if (sign) {
    skip();
    GPUACTORS_LET(part, read_signed(false));
    GPUACTORS_LET(made, make_of(*sign == Operator::subtract ? Kind::minus : Kind::plus, line, std::move(part)));
    result = std::move(made);
  } else {
    GPUACTORS_LET(part, read_primary());
    result = std::move(part);
  }
  GPUACTORS_LET(subject, read_postfix(std::move(result)));
  return has_filters ? read_applied(std::move(subject)) : Result<ExpressionPtr>{std::move(subject)};
}

} // namespace llm::chat

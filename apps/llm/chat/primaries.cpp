// What operators take: values, variables, and what follows them directly.
#include <apps/llm/chat/expressions.hpp>
#include <apps/llm/chat/filters.hpp>
#include <apps/llm/chat/methods.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::chat {

namespace {

using Kind = Expression::Kind;

/// The name of a filter or test that map, select and the like are given as a text, or null.
const std::string* name_in(const Expression& filter, std::size_t position) {
  if (filter.arguments.size() <= position || !filter.arguments[position].name.empty())
    return nullptr;
  const auto& value = *filter.arguments[position].value;
  return value.kind == Kind::constant ? value.constant.text() : nullptr;
}

bool holds_list(const Expression& key) {
  return key.kind == Kind::list || key.kind == Kind::dict
         || (key.kind == Kind::tuple
             && std::any_of(key.parts.begin(), key.parts.end(), [](const auto& part) { return holds_list(*part); }));
}

/// Whether a filter names another filter, or a test, that is unknown.
std::optional<std::string> unknown_in(const Expression& filter) {
  const bool takes_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  if (takes_attribute || filter.name == "select" || filter.name == "reject") {
    const auto* name = name_in(filter, takes_attribute ? 1 : 0);
    if (name != nullptr && find_test(*name) == nullptr)
      return fmt::format("the test {} is unknown", *name);
  }
  if (filter.name == "map")
    if (const auto* name = name_in(filter, 0); name != nullptr && find_filter(*name) == nullptr)
      return fmt::format("the filter {} is unknown", *name);
  return std::nullopt;
}

} // namespace

Result<ExpressionPtr> ExpressionReader::read_primary() {
  const auto& token = now();
  if (token.kind == Token::Kind::name) {
    const auto name = token.text;
    GPUACTORS_LET(made, make(Kind::constant, token.line));
    skip();
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      made->constant = Value{name == "true" || name == "True"};
    } else if (name == "none" || name == "None") {
      made->constant = Value{None{}};
    } else {
      made->kind = Kind::name;
      made->name = name;
    }
    return std::move(made);
  }
  if (token.kind == Token::Kind::number || token.kind == Token::Kind::text) {
    GPUACTORS_LET(made, make(Kind::constant, token.line));
    made->constant = token.constant;
    if (token.kind == Token::Kind::number) {
      skip();
      return std::move(made);
    }
    std::string text;
    for (; now().kind == Token::Kind::text; skip())
      text += now().text;
    made->constant = text_value(std::move(text));
    return std::move(made);
  }
  if (skip_sign("(")) {
    GPUACTORS_LET(tuple, read_tuple(true, true));
    GPUACTORS_TRY(expect_sign(")"));
    return std::move(tuple);
  }
  if (is_sign("["))
    return read_list();
  if (is_sign("{"))
    return read_dict();
  return unexpected("a value");
}

Result<ExpressionPtr> ExpressionReader::read_list() {
  const auto line = now().line;
  skip();
  std::vector<ExpressionPtr> parts;
  while (!is_sign("]")) {
    if (!parts.empty())
      GPUACTORS_TRY(expect_sign(","));
    if (is_sign("]"))
      break;
    GPUACTORS_LET(part, read_expression());
    parts.push_back(std::move(part));
  }
  skip();
  return make(Kind::list, line, std::move(parts));
}

Result<ExpressionPtr> ExpressionReader::read_dict() {
  const auto line = now().line;
  skip();
  std::vector<ExpressionPtr> parts;
  while (!is_sign("}")) {
    if (!parts.empty())
      GPUACTORS_TRY(expect_sign(","));
    if (is_sign("}"))
      break;
    GPUACTORS_LET(key, read_expression());
    if (holds_list(*key)) // which Jinja finds wrong even where it does not run
      return refuse(key->line, "a list or a dict is a key");
    parts.push_back(std::move(key));
    GPUACTORS_TRY(expect_sign(":"));
    GPUACTORS_LET(value, read_expression());
    parts.push_back(std::move(value));
  }
  skip();
  return make(Kind::dict, line, std::move(parts));
}

Result<ExpressionPtr> ExpressionReader::read_postfix(ExpressionPtr subject) {
  for (;;) {
    if (!is_sign(".") && !is_sign("[") && !is_sign("("))
      return subject;
    GPUACTORS_LET(made, is_sign(".")   ? read_attribute(std::move(subject))
                        : is_sign("[") ? read_item(std::move(subject))
                                       : read_call(std::move(subject)));
    subject = std::move(made);
  }
}

Result<ExpressionPtr> ExpressionReader::read_attribute(ExpressionPtr subject) {
  const auto line = now().line;
  skip();
  if (now().kind == Token::Kind::number && now().constant.is<std::int64_t>()) {
    GPUACTORS_LET(index, make(Kind::constant, line));
    index->constant = now().constant;
    skip();
    return make_of(Kind::item, line, std::move(subject), std::move(index));
  }
  GPUACTORS_LET(name, expect_name("the name of an attribute"));
  if (name.starts_with("__"))
    return refuse(line, fmt::format("the attribute {} is one of Python's own", name));
  GPUACTORS_LET(made, make_of(Kind::attribute, line, std::move(subject)));
  made->name = std::move(name);
  return std::move(made);
}

Result<ExpressionPtr> ExpressionReader::read_item(ExpressionPtr subject) {
  const auto line = now().line;
  skip();
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(subject));
  bool is_slice = is_sign(":");
  for (;;) {
    const bool is_empty = is_sign(":") || is_sign("]");
    if (is_empty && !is_slice)
      return unexpected("an index");
    ExpressionPtr part;
    if (!is_empty) {
      GPUACTORS_LET(read, read_expression());
      part = std::move(read);
    }
    parts.push_back(std::move(part));
    if (parts.size() > 3 || !skip_sign(":"))
      break;
    is_slice = true;
  }
  GPUACTORS_TRY(expect_sign("]"));
  if (!is_slice)
    return make(Kind::item, line, std::move(parts));
  parts.resize(4);
  return make(Kind::slice, line, std::move(parts));
}

Result<ExpressionPtr> ExpressionReader::read_call(ExpressionPtr subject) {
  const auto line = now().line;
  if (subject->kind == Kind::attribute && !is_method(subject->name))
    return refuse(line, fmt::format("the method {}() is unknown", subject->name));
  if (subject->kind != Kind::attribute && subject->kind != Kind::name)
    return refuse(line, "what is called is neither a name nor a method");
  GPUACTORS_LET(arguments, read_arguments());
  GPUACTORS_LET(made, make_of(Kind::call, line, std::move(subject)));
  return with_arguments(std::move(made), std::move(arguments));
}

Result<std::vector<Argument>> ExpressionReader::read_arguments() {
  GPUACTORS_TRY(expect_sign("("));
  std::vector<Argument> arguments;
  while (!is_sign(")")) {
    if (!arguments.empty())
      GPUACTORS_TRY(expect_sign(","));
    if (is_sign(")"))
      break;
    if (is_sign("*") || is_sign("**"))
      return refuse_here("arguments are passed by *");
    std::string name;
    if (now().kind == Token::Kind::name && after().kind == Token::Kind::sign && after().text == "=") {
      name = now().text;
      skip();
      skip();
    }
    if (name.empty() && !arguments.empty() && !arguments.back().name.empty())
      return refuse_here("an argument without a name follows one with a name");
    if (!name.empty()
        && std::any_of(arguments.begin(), arguments.end(), [&](const Argument& one) { return one.name == name; }))
      return refuse_here(fmt::format("there are two arguments with the name {}", name));
    GPUACTORS_LET(value, read_expression());
    arguments.push_back({std::move(name), std::move(value)});
  }
  skip();
  return arguments;
}

Result<ExpressionPtr> ExpressionReader::read_applied(ExpressionPtr subject) {
  for (;;) {
    if (!is_sign("|") && !is_name("is") && !is_sign("("))
      return subject;
    GPUACTORS_LET(made, is_sign("|")    ? read_filter(std::move(subject))
                        : is_name("is") ? read_test(std::move(subject))
                                        : read_call(std::move(subject)));
    subject = std::move(made);
  }
}

Result<ExpressionPtr> ExpressionReader::read_filters(ExpressionPtr subject) {
  while (is_sign("|")) {
    GPUACTORS_LET(made, read_filter(std::move(subject)));
    subject = std::move(made);
  }
  return subject;
}

Result<ExpressionPtr> ExpressionReader::read_filter(ExpressionPtr subject) {
  skip();
  const auto line = now().line;
  GPUACTORS_LET(name, expect_name("the name of a filter"));
  if (is_sign(".") || find_filter(name) == nullptr)
    return refuse(line, fmt::format("the filter {} is unknown", name));
  if (name == "safe")
    safes_.push_back(line);
  std::vector<Argument> arguments;
  if (is_sign("(")) {
    GPUACTORS_LET(read, read_arguments());
    arguments = std::move(read);
  }
  GPUACTORS_LET(made, make_of(Kind::filter, line, std::move(subject)));
  made->name = std::move(name);
  GPUACTORS_LET(filter, with_arguments(std::move(made), std::move(arguments)));
  if (const auto what = unknown_in(*filter))
    return refuse(line, *what);
  return std::move(filter);
}

Result<ExpressionPtr> ExpressionReader::read_test(ExpressionPtr subject) {
  const auto line = now().line;
  skip();
  const bool is_negated = skip_name("not");
  GPUACTORS_LET(name, expect_name("the name of a test"));
  if (is_sign(".") || find_test(name) == nullptr)
    return refuse(line, fmt::format("the test {} is unknown", name));
  std::vector<Argument> arguments;
  const auto kind = now().kind;
  const bool is_value = kind == Token::Kind::name || kind == Token::Kind::text || kind == Token::Kind::number
                        || is_sign("[") || is_sign("{");
  if (is_sign("(")) {
    GPUACTORS_LET(read, read_arguments());
    arguments = std::move(read);
  } else if (is_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is"))
      return refuse(line, "a test follows a test");
    GPUACTORS_LET(primary, read_primary());
    GPUACTORS_LET(value, read_postfix(std::move(primary)));
    arguments.push_back({"", std::move(value)});
  }
  GPUACTORS_LET(made, make_of(Kind::test, line, std::move(subject)));
  made->name = std::move(name);
  GPUACTORS_LET(test, with_arguments(std::move(made), std::move(arguments)));
  return is_negated ? make_of(Kind::negation, line, std::move(test)) : Result<ExpressionPtr>{std::move(test)};
}

} // namespace llm::chat

// Texts, outputs, and the tags that this library knows.
#include <apps/llm/chat/expressions.hpp>
#include <apps/llm/chat/parser.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace llm::chat {

namespace {

using Tag = Statement::Kind;
using Names = std::initializer_list<std::string_view>;

Statement make_statement(Tag kind, int line) {
  Statement statement;
  statement.kind = kind;
  statement.line = line;
  return statement;
}

class Parser : public ExpressionReader {
public:
  using ExpressionReader::ExpressionReader;

  Result<Program> run() {
    Program program;
    GPUACTORS_LET(body, read_body({}));
    if (!safes_.empty()) // elsewhere it makes a text that escapes those that are added to it
      return refuse(safes_.front(), "the filter safe is known at the end of {{ }} only");
    program.body = std::move(body);
    return program;
  }

private:
  /// Reads until a tag with one of these names, which is the next token then; or the end, if there are no names.
  Result<Body> read_body(Names ends) {
    const Nested nested{depth_};
    if (depth_ > most_in_each_other)
      return refuse_here(fmt::format("there are more than {} tags in each other", most_in_each_other));
    Body body;
    for (;;) {
      const auto kind = now().kind;
      const auto line = now().line;
      if (kind == Token::Kind::end) {
        if (ends.size() > 0)
          return refuse(line, fmt::format("the template ends before {{% {} %}}", *(ends.end() - 1)));
        return body;
      }
      if (kind == Token::Kind::data) {
        auto& text = body.emplace_back(make_statement(Tag::text, line));
        text.text = std::make_shared<const std::string>(now().text);
        skip();
        continue;
      }
      skip();
      if (kind == Token::Kind::output_begin) {
        GPUACTORS_TRY(read_output(body, line));
        continue;
      }
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return is_name(end); }))
        return body;
      GPUACTORS_LET(statement, read_statement(line));
      body.push_back(std::move(statement));
      GPUACTORS_TRY(expect_block_end());
    }
  }

  Result<void> read_output(Body& body, int line) {
    auto statement = make_statement(Tag::output, line);
    GPUACTORS_LET(value, read_tuple());
    if (value->kind == Expression::Kind::filter && value->name == "safe")
      safes_.pop_back();
    statement.value = std::move(value);
    if (now().kind != Token::Kind::output_end)
      return unexpected("}}");
    skip();
    body.push_back(std::move(statement));
    return {};
  }

  Result<void> expect_block_end() {
    if (now().kind != Token::Kind::block_end)
      return unexpected("%}");
    skip();
    return {};
  }

  /// Reads the end of a tag, and what stands until one of the tags with these names.
  Result<Body> read_inside(Names ends) {
    skip_sign(":");
    GPUACTORS_TRY(expect_block_end());
    return read_body(ends);
  }

  Result<Statement> read_statement(int line) {
    GPUACTORS_LET(name, expect_name("the name of a tag"));
    if (name == "if")
      return read_choice_of_bodies(line);
    if (name == "for")
      return read_loop(line);
    if (name == "set")
      return read_assignment(line);
    if (name == "macro")
      return read_macro(line);
    if (name == "generation")
      return read_generation(line);
    if (name != "break" && name != "continue")
      return refuse(line, fmt::format("the tag {{% {} %}} is unknown", name));
    if (loops_ == 0)
      return refuse(line, fmt::format("{{% {} %}} stands in no loop", name));
    return make_statement(name == "break" ? Tag::leave : Tag::repeat, line);
  }

  Result<Statement> read_choice_of_bodies(int line) {
    auto statement = make_statement(Tag::choice, line);
    for (;;) {
      GPUACTORS_LET(condition, read_tuple(false));
      GPUACTORS_LET(body, read_inside({"elif", "else", "endif"}));
      statement.branches.push_back({std::move(condition), std::move(body)});
      if (!skip_name("elif"))
        break;
    }
    if (skip_name("else")) {
      GPUACTORS_LET(body, read_inside({"endif"}));
      statement.otherwise = std::move(body);
    }
    skip();
    return statement;
  }

  Result<Statement> read_loop(int line) {
    auto statement = make_statement(Tag::loop, line);
    GPUACTORS_LET(target, read_target(false));
    statement.target = std::move(target);
    if (!skip_name("in"))
      return unexpected("in");
    GPUACTORS_LET(value, read_tuple(false));
    statement.value = std::move(value);
    if (skip_name("if")) {
      GPUACTORS_LET(condition, read_expression());
      statement.condition = std::move(condition);
    }
    if (is_name("recursive"))
      return refuse_here("a loop is recursive");
    ++loops_;
    GPUACTORS_LET(body, read_inside({"else", "endfor"}));
    --loops_;
    statement.body = std::move(body);
    if (skip_name("else")) {
      GPUACTORS_LET(otherwise, read_inside({"endfor"}));
      statement.otherwise = std::move(otherwise);
    }
    skip();
    return statement;
  }

  Result<Statement> read_assignment(int line) {
    GPUACTORS_LET(target, read_target(true));
    const bool is_capture = !is_sign("=");
    auto statement = make_statement(is_capture ? Tag::capture : Tag::assignment, line);
    statement.target = std::move(target);
    if (!is_capture) {
      skip();
      GPUACTORS_LET(value, read_tuple());
      statement.value = std::move(value);
      return statement;
    }
    if (is_sign("|")) {
      GPUACTORS_LET(filters, read_filters(nullptr));
      statement.value = std::move(filters);
    }
    GPUACTORS_TRY(read_own_body(statement, "endset"));
    return statement;
  }

  /// The body of what is no part of the loop around it.
  Result<void> read_own_body(Statement& statement, std::string_view end) {
    const auto loops = std::exchange(loops_, 0);
    GPUACTORS_LET(body, read_inside({end}));
    loops_ = loops;
    statement.body = std::move(body);
    skip();
    return {};
  }

  Result<Statement> read_macro(int line) {
    auto statement = make_statement(Tag::macro, line);
    GPUACTORS_LET(name, read_variable());
    statement.name = std::move(name);
    GPUACTORS_TRY(expect_sign("("));
    while (!is_sign(")")) {
      auto& parameters = statement.parameters;
      if (!parameters.empty())
        GPUACTORS_TRY(expect_sign(","));
      GPUACTORS_LET(parameter, read_variable());
      if (std::any_of(parameters.begin(), parameters.end(), [&](const auto& one) { return one.name == parameter; }))
        return refuse_here(fmt::format("two parameters have the name {}", parameter));
      ExpressionPtr otherwise;
      if (skip_sign("=")) {
        GPUACTORS_LET(read, read_expression());
        otherwise = std::move(read);
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        return refuse_here("a parameter without a value follows one with a value");
      }
      parameters.push_back({std::move(parameter), std::move(otherwise), 0});
    }
    skip();
    GPUACTORS_TRY(read_own_body(statement, "endmacro"));
    return statement;
  }

  Result<Statement> read_generation(int line) {
    auto statement = make_statement(Tag::generation, line);
    GPUACTORS_TRY(read_own_body(statement, "endgeneration"));
    return statement;
  }

  /// The name of what can be set.
  Result<std::string> read_variable() {
    GPUACTORS_LET(name, expect_name("the name of a variable"));
    constexpr std::string_view constants[] = {"true", "True", "false", "False", "none", "None", "loop"};
    if (std::find(std::begin(constants), std::end(constants), name) != std::end(constants))
      return refuse_here(fmt::format("{} is set", name));
    return std::move(name);
  }

  /// One target, or several with commas between them.
  Result<Target> read_target(bool has_attributes) {
    const Nested nested{depth_};
    Target tuple;
    tuple.kind = Target::Kind::tuple;
    tuple.line = now().line;
    if (depth_ > most_in_each_other)
      return refuse_here(fmt::format("there are more than {} tuples in each other", most_in_each_other));
    bool is_tuple = false;
    while (now().kind != Token::Kind::block_end && !is_sign(")") && !is_name("in")) {
      GPUACTORS_LET(target, read_one_target(has_attributes));
      tuple.parts.push_back(std::move(target));
      if (!skip_sign(","))
        break;
      is_tuple = true;
    }
    if (tuple.parts.empty())
      return unexpected("the name of a variable");
    return is_tuple ? Result<Target>{std::move(tuple)} : Result<Target>{std::move(tuple.parts.front())};
  }

  Result<Target> read_one_target(bool has_attributes) {
    if (skip_sign("(")) {
      GPUACTORS_LET(target, read_target(false));
      GPUACTORS_TRY(expect_sign(")"));
      return std::move(target);
    }
    Target target;
    target.line = now().line;
    GPUACTORS_LET(name, read_variable());
    target.name = std::move(name);
    if (has_attributes && skip_sign(".")) {
      GPUACTORS_LET(attribute, expect_name("the name of an attribute"));
      if (attribute.starts_with("_"))
        return refuse_here(fmt::format("the attribute {} begins with _", attribute));
      target.kind = Target::Kind::attribute;
      target.attribute = std::move(attribute);
    }
    return target;
  }

  /// How many loops stand around what is read, in the same body.
  int loops_ = 0;
};

} // namespace

Result<Program> read_program(std::string_view source) {
  GPUACTORS_LET(tokens, divide(source));
  return Parser{std::move(tokens)}.run();
}

} // namespace llm::chat

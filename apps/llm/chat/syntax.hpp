// What a template consists of, once it is read.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llm::chat {

enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

[[nodiscard]] std::string_view name_of(Operator sign);

/// Where a variable is: in a slot of the function that runs, or of one around it.
struct Place {
  int functions_up = 0;
  std::size_t slot = 0;
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  /// Empty for one by position.
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    constant,
    name,
    list,
    tuple,
    dict,      // parts: key, value, key, value, ...
    attribute, // of parts[0]
    item,      // parts[1] of parts[0]
    slice,     // parts[1..3] of parts[0], each of which may be null
    call,      // of parts[0]
    filter,    // of parts[0], which is null in {% set x | filter %}
    test,      // of parts[0]
    minus,
    plus,
    negation,
    both,
    either,
    arithmetic,
    joined, // by ~
    comparison,
    choice, // parts[1] if parts[0] else parts[2], which may be null
  };

  Kind kind = Kind::constant;
  int line = 0;
  /// Of how many expressions in each other it consists.
  int depth = 1;
  Value constant;
  /// Of a variable, an attribute, a filter or a test.
  std::string name;
  std::vector<ExpressionPtr> parts;
  /// Of arithmetic one, of a comparison one less than parts.
  std::vector<Operator> operators;
  std::vector<Argument> arguments;
  Place place;
};

/// What is set.
struct Target {
  enum class Kind { name, attribute, tuple };
  Kind kind = Kind::name;
  int line = 0;
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
  Place place;
};

/// What happens to a variable where its scope begins.
struct Load {
  enum class Kind { parameter, look_up, copy, miss };
  Kind kind = Kind::miss;
  std::size_t slot = 0;
  /// Of a variable that is looked up among those that the template is rendered with.
  std::string name;
  /// Of a variable that is copied from the scope around.
  Place from;
};

struct Scope {
  std::vector<Load> loads;
};

/// What Jinja makes a function of: the template, a macro, the condition of a loop, a generation block.
struct Frame {
  std::size_t slots = 0;
  /// Whether it has macros, which may outlive its run.
  bool is_kept = false;
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;
  std::size_t slot = 0;
};

struct Statement {
  enum class Kind {
    text,
    output,
    choice,     // branches, otherwise
    loop,       // for target in value if condition: body, otherwise
    assignment, // of value to target
    capture,    // of body to target, through the filter in value
    macro,
    generation,
    leave,
    repeat
  };

  Kind kind = Kind::text;
  int line = 0;
  Text text;
  ExpressionPtr value;
  ExpressionPtr condition;
  Target target;
  /// The same in the function that tells by the condition which values a loop takes.
  Target tested;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
  std::string name;
  std::vector<Parameter> parameters;
  /// Of the body, of what is done otherwise, and of the condition.
  Scope scope;
  Scope otherwise_scope;
  Scope condition_scope;
  /// Of a macro or generation block, or of the condition of a loop.
  Frame frame;
  /// Where the variable `loop`, or that of a macro, is.
  Place place;
};

struct Program {
  Body body;
  Scope scope;
  Frame frame;
};

} // namespace llm::chat

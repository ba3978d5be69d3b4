// Walks over a program twice for each scope: which names it has, and where they are.
#include <apps/llm/chat/functions.hpp>
#include <apps/llm/chat/lexer.hpp>
#include <apps/llm/chat/scopes.hpp>
#include <apps/llm/chat/symbols.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llm::chat {

namespace {

using Tag = Statement::Kind;

// -- which names a scope has ------------------------------------------------------------------

void collect(Symbols& symbols, const Expression* expression) {
  if (expression == nullptr)
    return;
  if (expression->kind == Expression::Kind::name)
    symbols.load(expression->name);
  for (const auto& part : expression->parts)
    collect(symbols, part.get());
  for (const auto& argument : expression->arguments)
    collect(symbols, argument.value.get());
}

void collect_target(Symbols& symbols, const Target& target, bool is_given) {
  for (const auto& part : target.parts)
    collect_target(symbols, part, is_given);
  if (target.kind == Target::Kind::attribute)
    symbols.load(target.name);
  else if (target.kind == Target::Kind::name && is_given)
    symbols.declare(target.name);
  else if (target.kind == Target::Kind::name)
    symbols.store(target.name);
}

void collect(Symbols& symbols, const Body& body) {
  for (const auto& statement : body) {
    if (statement.kind == Tag::macro) {
      symbols.store(statement.name);
    } else if (statement.kind == Tag::choice) {
      collect(symbols, statement.branches.front().condition.get());
      const auto begin = symbols.begin_branches();
      for (const auto& branch : statement.branches) {
        if (&branch != &statement.branches.front())
          collect(symbols, branch.condition.get());
        collect(symbols, branch.body);
      }
      collect(symbols, statement.otherwise);
      symbols.end_branches(begin);
    } else {
      if (statement.kind != Tag::capture)
        collect(symbols, statement.value.get());
      if (statement.kind == Tag::assignment || statement.kind == Tag::capture)
        collect_target(symbols, statement.target, false);
    }
  }
}

// -- where they are ---------------------------------------------------------------------------

class Placer {
public:
  Result<void> place(Symbols& symbols, Body& body) {
    for (auto& statement : body)
      GPUACTORS_TRY(place(symbols, statement));
    return {};
  }

private:
  Result<void> place(Symbols& symbols, Statement& statement) {
    switch (statement.kind) {
    case Tag::output:
      return place(symbols, statement.value.get());
    case Tag::choice:
      for (auto& branch : statement.branches) {
        GPUACTORS_TRY(place(symbols, branch.condition.get()));
        GPUACTORS_TRY(place(symbols, branch.body));
      }
      return place(symbols, statement.otherwise);
    case Tag::loop:
      return place_loop(symbols, statement);
    case Tag::assignment:
      GPUACTORS_TRY(place(symbols, statement.value.get()));
      return place(symbols, statement.target);
    case Tag::capture:
      return place_capture(symbols, statement);
    case Tag::macro:
    case Tag::generation:
      return place_function(symbols, statement);
    default:
      return {};
    }
  }

  Result<void> place(const Symbols& symbols, const std::string& name, int line, Place& place) {
    const auto found = symbols.find(name);
    if (!found)
      return refuse(line, fmt::format("the name {} stands where Jinja knows none", name));
    place = *found;
    return {};
  }

  Result<void> place(Symbols& symbols, Expression* expression) {
    if (expression == nullptr)
      return {};
    if (expression->kind == Expression::Kind::name) {
      GPUACTORS_TRY(check_name(symbols, *expression));
      return place(symbols, expression->name, expression->line, expression->place);
    }
    const auto* first = expression->parts.empty() ? nullptr : expression->parts.front().get();
    const bool is_of_name = first != nullptr && first->kind == Expression::Kind::name;
    if (is_of_name && expression->kind == Expression::Kind::call && symbols.is_from_outside(first->name)
        && !find_function(first->name))
      return refuse(expression->line, fmt::format("the function {}() is unknown", first->name));
    if (is_of_name && first->name == "loop")
      GPUACTORS_TRY(place_use_of_loop(symbols, *expression));
    for (auto& part : expression->parts)
      if (!is_of_name || part.get() != first || first->name != "loop")
        GPUACTORS_TRY(place(symbols, part.get()));
    for (auto& argument : expression->arguments)
      GPUACTORS_TRY(place(symbols, argument.value.get()));
    return {};
  }

  Result<void> check_name(const Symbols& symbols, const Expression& name) {
    if (name.name == "loop")
      return refuse(name.line, "loop is used for other things than its attributes");
    constexpr std::array never = {"caller", "varargs", "kwargs", "self"};
    constexpr std::array not_from_outside = {"cycler", "joiner", "lipsum"};
    if (std::find(never.begin(), never.end(), name.name) != never.end()
        || (std::find(not_from_outside.begin(), not_from_outside.end(), name.name) != not_from_outside.end()
            && symbols.is_from_outside(name.name)))
      return refuse(name.line, fmt::format("the name {}, which means something in Jinja, is unknown", name.name));
    return {};
  }

  /// An expression whose first part is `loop`: no value holds it, so that it may end with its loop.
  Result<void> place_use_of_loop(Symbols& symbols, Expression& expression) {
    auto& loop = *expression.parts.front();
    const bool is_test =
        expression.kind == Expression::Kind::test && (expression.name == "defined" || expression.name == "undefined");
    if (!is_test && expression.kind != Expression::Kind::attribute)
      return check_name(symbols, loop);
    if (!is_test && !is_loop_attribute(expression.name))
      return refuse(expression.line, fmt::format("the attribute {} of loop is unknown", expression.name));
    return place(symbols, loop.name, loop.line, loop.place);
  }

  Result<void> place(Symbols& symbols, Target& target) {
    for (auto& part : target.parts)
      GPUACTORS_TRY(place(symbols, part));
    return target.kind == Target::Kind::tuple ? Result<void>{} : place(symbols, target.name, target.line, target.place);
  }

  Result<void> place_loop(Symbols& symbols, Statement& loop) {
    GPUACTORS_TRY(place(symbols, loop.value.get()));
    Symbols inside{symbols.frame(), &symbols};
    inside.declare("loop");
    collect_target(inside, loop.target, true);
    collect(inside, loop.body);
    if (loop.condition != nullptr) {
      loop.tested = loop.target;
      FrameSymbols frame{&symbols.frame(), {}, false};
      Symbols condition{frame, &symbols};
      collect_target(condition, loop.target, true);
      collect(condition, loop.condition.get());
      GPUACTORS_TRY(place(condition, loop.tested));
      GPUACTORS_TRY(place(condition, loop.condition.get()));
      loop.condition_scope = condition.scope();
      loop.frame = {frame.slots.size(), false};
    }
    GPUACTORS_TRY(place(inside, loop.target));
    GPUACTORS_TRY(place(inside, "loop", loop.line, loop.place));
    GPUACTORS_TRY(place(inside, loop.body));
    loop.scope = inside.scope();
    Symbols otherwise{symbols.frame(), &symbols};
    collect(otherwise, loop.otherwise);
    GPUACTORS_TRY(place(otherwise, loop.otherwise));
    loop.otherwise_scope = otherwise.scope();
    return {};
  }

  Result<void> place_capture(Symbols& symbols, Statement& capture) {
    Symbols inside{symbols.frame(), &symbols};
    collect(inside, capture.body);
    GPUACTORS_TRY(place(inside, capture.body));
    capture.scope = inside.scope();
    GPUACTORS_TRY(place(inside, capture.value.get()));
    return place(symbols, capture.target);
  }

  Result<void> place_function(Symbols& symbols, Statement& function) {
    FrameSymbols frame{&symbols.frame(), {}, false};
    Symbols inside{frame, &symbols};
    for (const auto& parameter : function.parameters)
      inside.declare(parameter.name);
    for (const auto& parameter : function.parameters)
      collect(inside, parameter.otherwise.get());
    collect(inside, function.body);
    for (auto& parameter : function.parameters) {
      parameter.slot = inside.find(parameter.name)->slot;
      GPUACTORS_TRY(place(inside, parameter.otherwise.get()));
    }
    GPUACTORS_TRY(place(inside, function.body));
    function.scope = inside.scope();
    if (function.kind == Tag::macro) {
      GPUACTORS_TRY(place(symbols, function.name, function.line, function.place));
      for (auto* one = &symbols.frame(); one != nullptr; one = one->around)
        one->is_kept = true;
    }
    function.frame = {frame.slots.size(), frame.is_kept};
    return {};
  }
};

} // namespace

Result<void> find_places(Program& program) {
  FrameSymbols frame;
  Symbols symbols{frame, nullptr};
  collect(symbols, program.body);
  GPUACTORS_TRY(Placer{}.place(symbols, program.body));
  program.scope = symbols.scope();
  program.frame = {frame.slots.size(), frame.is_kept};
  return {};
}

} // namespace llm::chat

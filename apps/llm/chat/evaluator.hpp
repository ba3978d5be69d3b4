// Runs a program.
#pragma once

#include <apps/llm/chat/functions.hpp>
#include <apps/llm/chat/loop.hpp>
#include <apps/llm/chat/syntax.hpp>

#include <cstddef>
#include <deque>
#include <string>

namespace llm::chat {

/// One rendering. Values that it makes do not outlive it.
class Evaluator {
public:
  /// @param variables live longer, as does the program.
  Evaluator(const Program& program, const Entries& variables, Budget& budget, Surroundings& surroundings,
            std::size_t output_bytes)
    : program_(&program), variables_(&variables), budget_(&budget), surroundings_(&surroundings),
      output_bytes_(output_bytes) {
    // nop
  }

  Result<std::string> run();

  /// Where the error is that `run` returned; 0 if it is nowhere in the template.
  [[nodiscard]] int line() const {
    return line_;
  }

private:
  enum class Flow { on, leave, repeat };
  class Chosen;
  class Inside;

  // -- statements (evaluator.cpp) --
  Result<Flow> run(const Body& body);
  /// Counts what has begun and not ended, which the caller takes back.
  Result<void> go_deeper();
  Result<Flow> run(const Statement& statement);
  Result<Flow> run_choice(const Statement& choice);
  Result<Flow> run_loop(const Statement& loop);
  Result<Flow> run_capture(const Statement& capture);
  Result<Flow> run_generation(const Statement& generation);
  Result<void> write_output(const Statement& output);
  Result<void> enter(const Scope& scope);
  void leave(const Scope& scope);
  Result<void> assign(const Target& target, const Value& value);
  [[nodiscard]] Value& at(const Place& place) const;
  Result<Value> look_up_variable(const std::string& name);
  /// The variables of a function that is called. `own` holds them unless they may be kept.
  Result<Environment*> make_environment(const Frame& frame, Environment* around, Environment& own);

  // -- expressions (evaluate.cpp) --
  Result<Value> evaluate(const Expression& expression);
  Result<Value> evaluate_kind(const Expression& expression);
  Result<Value> evaluate_name(const Expression& name);
  Result<Value> evaluate_parts(const Expression& expression);
  Result<Value> evaluate_attribute(const Expression& attribute);
  Result<Value> evaluate_slice(const Expression& slice);
  Result<Value> evaluate_call(const Expression& call);
  Result<Value> evaluate_filter(const Expression& filter);
  Result<Value> evaluate_test(const Expression& test);
  Result<Value> evaluate_comparison(const Expression& comparison);
  Result<Value> evaluate_joined(const Expression& joined);
  Result<Arguments> evaluate_arguments(const Expression& expression);
  Result<bool> compare(Operator sign, const Value& left, const Value& right);
  Result<Value> call_macro(const MacroRef& macro, const Arguments& arguments);
  Result<void> fill_parameters(const Statement& macro, const Arguments& arguments, Environment& environment);

  const Program* program_;
  const Entries* variables_;
  Budget* budget_;
  Surroundings* surroundings_;
  std::size_t output_bytes_;
  Writer* output_ = nullptr;
  Environment* environment_ = nullptr;
  /// Of functions that have macros, which may be called when those have ended.
  std::deque<Environment> kept_;
  /// What {% set x | filter %} applies its filter to.
  const Value* captured_ = nullptr;
  int depth_ = 0;
  int line_ = 0;
};

} // namespace llm::chat

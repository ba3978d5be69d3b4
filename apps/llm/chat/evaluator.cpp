// Statements, scopes and variables.
#include <apps/llm/chat/evaluator.hpp>

#include <fmt/format.h>

#include <utility>

namespace llm::chat {

/// Goes through the values for which the condition of a loop holds. It asks when the loop asks, so that a condition may
/// depend on what the loop did before.
class Evaluator::Chosen : public Iterator {
public:
  Chosen(Evaluator& evaluator, const Statement& loop, std::shared_ptr<Iterator> source)
    : evaluator_(&evaluator), loop_(&loop), source_(std::move(source)) {
    environment_.slots.resize(loop.frame.slots);
    environment_.around = evaluator.environment_;
  }

  Result<bool> next(Budget& budget, Value& value) override {
    auto* const outside = std::exchange(evaluator_->environment_, &environment_);
    auto found = find(budget, value);
    evaluator_->environment_ = outside;
    return found;
  }

private:
  Result<bool> find(Budget& budget, Value& value) {
    if (!std::exchange(has_begun_, true))
      GPUACTORS_TRY(evaluator_->enter(loop_->condition_scope));
    for (;;) {
      Value one;
      GPUACTORS_LET(has_one, source_->next(budget, one));
      if (!has_one)
        return false;
      GPUACTORS_TRY(evaluator_->assign(loop_->tested, one));
      GPUACTORS_LET(holds, evaluator_->evaluate(*loop_->condition));
      if (!is_true(holds))
        continue;
      GPUACTORS_LET(again, collect(budget, loop_->tested));
      value = std::move(again);
      return true;
    }
  }

  /// What was assigned to the target, which makes a tuple of a list.
  Result<Value> collect(Budget& budget, const Target& target) {
    if (target.kind == Target::Kind::name)
      return evaluator_->at(target.place);
    std::vector<Value> values;
    for (const auto& part : target.parts) {
      GPUACTORS_LET(value, collect(budget, part));
      values.push_back(std::move(value));
    }
    return make_tuple(budget, std::move(values));
  }

  Evaluator* evaluator_;
  const Statement* loop_;
  std::shared_ptr<Iterator> source_;
  Environment environment_;
  bool has_begun_ = false;
};

Result<std::string> Evaluator::run() {
  Writer writer{*budget_};
  Environment environment;
  environment.slots.resize(program_->frame.slots);
  output_ = &writer;
  environment_ = &environment;
  GPUACTORS_TRY(enter(program_->scope));
  GPUACTORS_TRY(run(program_->body));
  return writer.release();
}

Result<Evaluator::Flow> Evaluator::run(const Body& body) {
  GPUACTORS_TRY(go_deeper());
  auto flow = Result<Flow>{Flow::on};
  for (const auto& statement : body) {
    flow = run(statement);
    if (!flow && line_ == 0)
      line_ = statement.line;
    if (!flow || *flow != Flow::on)
      break;
  }
  --depth_;
  return flow;
}

Result<void> Evaluator::go_deeper() {
  // Expressions, bodies and macros in each other while they run: what the stack of a thread bears.
  constexpr int most_running = 400;
  if (depth_ == most_running)
    return wrong(fmt::format("calls macros in each other until {} expressions and tags have begun", most_running));
  ++depth_;
  return {};
}

Result<Evaluator::Flow> Evaluator::run(const Statement& statement) {
  using Kind = Statement::Kind;
  GPUACTORS_TRY(budget_->step());
  switch (statement.kind) {
  case Kind::text:
  case Kind::output:
    GPUACTORS_TRY(write_output(statement));
    return Flow::on;
  case Kind::choice:
    return run_choice(statement);
  case Kind::loop:
    return run_loop(statement);
  case Kind::assignment: {
    GPUACTORS_LET(value, evaluate(*statement.value));
    GPUACTORS_TRY(assign(statement.target, value));
    return Flow::on;
  }
  case Kind::capture:
    return run_capture(statement);
  case Kind::macro:
    at(statement.place) = Value{MacroRef{&statement, environment_}};
    return Flow::on;
  case Kind::generation:
    return run_generation(statement);
  case Kind::leave:
    return Flow::leave;
  case Kind::repeat:
    break;
  }
  return Flow::repeat;
}

Result<void> Evaluator::write_output(const Statement& output) {
  if (output.kind == Statement::Kind::text) {
    GPUACTORS_TRY(output_->add(*output.text));
  } else {
    GPUACTORS_LET(value, evaluate(*output.value));
    GPUACTORS_TRY(write(*output_, value));
  }
  if (output_->text().size() > output_bytes_)
    return wrong(fmt::format("writes more than {} bytes, which is the limit", output_bytes_));
  return {};
}

Result<Evaluator::Flow> Evaluator::run_choice(const Statement& choice) {
  for (const auto& branch : choice.branches) {
    GPUACTORS_LET(condition, evaluate(*branch.condition));
    if (is_true(condition))
      return run(branch.body);
  }
  return run(choice.otherwise);
}

Result<Evaluator::Flow> Evaluator::run_loop(const Statement& statement) {
  GPUACTORS_LET(value, evaluate(*statement.value));
  GPUACTORS_LET(source, iterate(value));
  std::optional<std::int64_t> length;
  if (statement.condition != nullptr) {
    source = std::make_shared<Chosen>(*this, statement, std::move(source));
  } else if (!value.is<Generator>()) {
    GPUACTORS_TRY(budget_->look(value.is<Text>() ? value.text()->size() : 0));
    GPUACTORS_LET(known, length_of(value));
    length = known;
  }
  Loop loop{std::move(source), length};
  bool has_run = false;
  for (;;) {
    Value one;
    GPUACTORS_LET(has_one, loop.next(*budget_, one));
    if (!has_one)
      break;
    GPUACTORS_TRY(assign(statement.target, one));
    GPUACTORS_TRY(enter(statement.scope));
    at(statement.place) = Value{LoopRef{&loop}};
    GPUACTORS_LET(flow, run(statement.body));
    if (flow == Flow::leave)
      break;
    // As in Jinja: a run that `continue` ended does not count for `else`.
    has_run = has_run || flow == Flow::on;
  }
  leave(statement.scope);
  if (has_run || statement.otherwise.empty())
    return Flow::on;
  GPUACTORS_TRY(enter(statement.otherwise_scope));
  GPUACTORS_LET(flow, run(statement.otherwise));
  if (flow == Flow::on)
    leave(statement.otherwise_scope);
  return flow;
}

Result<Evaluator::Flow> Evaluator::run_capture(const Statement& capture) {
  Writer writer{*budget_};
  auto* const outside = std::exchange(output_, &writer);
  GPUACTORS_TRY(enter(capture.scope));
  GPUACTORS_TRY(run(capture.body));
  output_ = outside;
  auto value = text_value(writer.release());
  if (capture.value != nullptr) {
    const auto* const captured = std::exchange(captured_, &value);
    GPUACTORS_LET(filtered, evaluate(*capture.value));
    captured_ = captured;
    value = std::move(filtered);
  }
  GPUACTORS_TRY(assign(capture.target, value));
  leave(capture.scope);
  return Flow::on;
}

Result<Evaluator::Flow> Evaluator::run_generation(const Statement& generation) {
  Environment own;
  GPUACTORS_LET(inside, make_environment(generation.frame, environment_, own));
  auto* const outside = std::exchange(environment_, inside);
  GPUACTORS_TRY(enter(generation.scope));
  GPUACTORS_TRY(run(generation.body));
  environment_ = outside;
  return Flow::on;
}

Result<Environment*> Evaluator::make_environment(const Frame& frame, Environment* around, Environment& own) {
  GPUACTORS_TRY(budget_->take(sizeof(Environment) + frame.slots * sizeof(Value)));
  auto* environment = frame.is_kept ? &kept_.emplace_back() : &own;
  environment->slots.resize(frame.slots);
  environment->around = around;
  return environment;
}

Result<void> Evaluator::enter(const Scope& scope) {
  GPUACTORS_TRY(budget_->step(scope.loads.size()));
  for (const auto& load : scope.loads) {
    auto& slot = environment_->slots[load.slot];
    if (load.kind == Load::Kind::copy) {
      slot = at(load.from);
    } else if (load.kind == Load::Kind::miss) {
      slot = Value{};
    } else if (load.kind == Load::Kind::look_up) {
      GPUACTORS_LET(value, look_up_variable(load.name));
      slot = std::move(value);
    }
  }
  return {};
}

void Evaluator::leave(const Scope& scope) {
  for (const auto& load : scope.loads)
    environment_->slots[load.slot] = Value{};
}

Result<Value> Evaluator::look_up_variable(const std::string& name) {
  GPUACTORS_TRY(budget_->step(variables_->pairs.size() / 8));
  for (const auto& [one, value] : variables_->pairs)
    if (*one.text() == name)
      return value;
  const auto function = find_function(name);
  return function ? Value{*function} : Value{};
}

Value& Evaluator::at(const Place& place) const {
  auto* environment = environment_;
  for (int i = 0; i < place.functions_up; ++i)
    environment = environment->around;
  return environment->slots[place.slot];
}

Result<void> Evaluator::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::name) {
    at(target.place) = value;
    return {};
  }
  if (target.kind == Target::Kind::attribute) {
    const auto* ref = at(target.place).as<NamespaceRef>();
    if (ref == nullptr)
      return wrong(fmt::format("sets an attribute of {}, which is no namespace", target.name));
    GPUACTORS_TRY(budget_->step(ref->space->attributes.size() / 8));
    for (auto& [name, old] : ref->space->attributes)
      if (name == target.attribute) {
        old = value;
        return {};
      }
    GPUACTORS_TRY(budget_->take(sizeof(Value) + sizeof(std::string) + target.attribute.size()));
    ref->space->attributes.emplace_back(target.attribute, value);
    return {};
  }
  GPUACTORS_LET(iterator, iterate(value));
  std::vector<Value> values;
  for (Value one; values.size() <= target.parts.size(); values.push_back(one)) {
    GPUACTORS_LET(has_one, iterator->next(*budget_, one));
    if (!has_one)
      break;
  }
  if (values.size() != target.parts.size())
    return wrong(fmt::format("takes {} values apart into {} variables",
                             values.size() > target.parts.size() ? "more" : "fewer", target.parts.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    GPUACTORS_TRY(assign(target.parts[i], values[i]));
  return {};
}

} // namespace llm::chat

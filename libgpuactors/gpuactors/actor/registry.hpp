// The task and actor types of a program: names, message types, and how to run or construct them.
#pragma once

#include <gpuactors/actor/actor.hpp>
#include <gpuactors/actor/batch.hpp>
#include <gpuactors/actor/batch_handler.hpp>
#include <gpuactors/actor/handler.hpp>
#include <gpuactors/actor/interface.hpp>
#include <gpuactors/actor/plugin_note.hpp>
#include <gpuactors/actor/task.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// Default resources of a task or actor type: `gpus` and `memory_bytes` apply if a submit or spawn names neither of
/// them, `cpus` if it names none. In the units of `Options`.
struct Needs {
  double gpus = 0;
  std::uint64_t memory_bytes = 0;
  double cpus = 0;

  friend bool operator==(const Needs&, const Needs&) = default;
};

/// A task type. Immutable once registered.
struct TaskType {
  std::string name;
  /// Its place among all tasks of its registry, from 0.
  std::size_t number = 0;
  Needs needs;
  const google::protobuf::Descriptor* input = nullptr;
  /// Type of the answer, or of the items when it is streamed.
  const google::protobuf::Descriptor* output = nullptr;
  bool streamed = false;
  detail::Handler<TaskContext> run;
};

/// A method of an actor type.
struct MethodType {
  std::string name;
  /// Its place among all methods of its type, from 0.
  std::size_t number = 0;
  const google::protobuf::Descriptor* input = nullptr;
  /// Type of the answer, or of the items when it is streamed.
  const google::protobuf::Descriptor* output = nullptr;
  bool streamed = false;
  /// Whether it runs concurrently with others, on a second thread.
  bool concurrent = false;
  /// Whether a base class has registered it, so that the class itself may register another one in its place.
  bool inherited = false;
  /// Empty if it answers several calls together.
  detail::Handler<Actor> run;
  /// When batches run, if it answers several calls together.
  std::optional<BatchOptions> batch;
  detail::BatchHandler<Actor> run_batch;
};

/// An actor type. Methods are added while it is being registered; immutable afterwards.
struct ActorType {
  std::string name;
  Needs needs;
  const google::protobuf::Descriptor* config = nullptr;
  Ownership ownership = Ownership::any;
  std::map<std::string, MethodType, std::less<>> methods;
  std::function<Result<std::unique_ptr<Actor>>(Init, const Payload&)> make;

  /// Finds a method by name. @returns `not_found` with similar names.
  [[nodiscard]] Result<const MethodType*> find_method(std::string_view method) const;

  /// Returns the names of methods by their numbers.
  [[nodiscard]] std::vector<std::string> method_names() const;
};

/// A set of types. Filled before a cluster opens, read by any thread afterwards.
class TypeRegistry {
public:
  /// Returns the registry that `GPUACTORS_TASK` and `GPUACTORS_ACTOR` fill. It contains the library's own task,
  /// `SourceTask::type`, from the beginning.
  static TypeRegistry& global();

  /// Adds a task. A duplicate or malformed name is recorded as a problem for `check`, because registration runs before
  /// main, where nobody could handle an error. The result is never null.
  std::shared_ptr<TaskType> add(TaskType task);
  std::shared_ptr<ActorType> add(ActorType actor);
  void add_problem(std::string problem);
  /// Adds a method. It replaces an inherited method of the same name. An invalid or taken name, or batches of no call,
  /// are recorded as a problem.
  void add_method(ActorType& type, MethodType method);
  /// Records a problem if `needs` break the rules of shares.
  void check_needs(const std::string& type, const Needs& needs);

  /// @returns `invalid_argument` with the first problem of the registrations.
  [[nodiscard]] Result<void> check() const;

  /// Find a type by name. @returns `not_found` with similar names.
  [[nodiscard]] Result<const TaskType*> find_task(std::string_view name) const;
  [[nodiscard]] Result<const ActorType*> find_actor(std::string_view name) const;

  /// Returns the names of tasks by their numbers.
  [[nodiscard]] std::vector<std::string> task_names() const;

  /// Return all types in the order of their names.
  [[nodiscard]] std::vector<const TaskType*> tasks() const;
  [[nodiscard]] std::vector<const ActorType*> actors() const;

private:
  std::map<std::string, std::shared_ptr<TaskType>, std::less<>> tasks_;
  std::map<std::string, std::shared_ptr<ActorType>, std::less<>> actors_;
  std::vector<std::string> problems_;
};

/// Adds details to the task type that `define_task` registered.
class TaskTypeBuilder {
public:
  TaskTypeBuilder(std::shared_ptr<TaskType> type, TypeRegistry& registry)
    : type_(std::move(type)), registry_(&registry) {
    // nop
  }

  /// Sets the resources that the task gets unless a submit says otherwise.
  TaskTypeBuilder& needs(Needs needs);

private:
  std::shared_ptr<TaskType> type_;
  TypeRegistry* registry_;
};

/// Registers `function(TaskContext&, const In&[, ReplyStream<Out>&])` as task `name`. Call before a cluster opens.
template <class F>
TaskTypeBuilder define_task(std::string name, F function, TypeRegistry& registry = TypeRegistry::global()) {
  using S = detail::Signature<F>;
  TaskType task;
  task.name = std::move(name);
  task.input = S::In::descriptor();
  task.output = detail::ItemOf<S, S::streamed>::Type::descriptor();
  task.streamed = S::streamed;
  task.run = detail::make_handler<S, TaskContext>(std::move(function));
  return {registry.add(std::move(task)), registry};
}

/// Registers the function of a task that `task` (`Task` or `StreamTask`) declares with its messages.
template <detail::DeclaredTask T, class F>
TaskTypeBuilder define_task(const T& task, F function, TypeRegistry& registry = TypeRegistry::global()) {
  detail::check_implementation<T, detail::Signature<F>>();
  return define_task(std::string{task.name()}, std::move(function), registry);
}

/// Adds methods to the actor type that `define_actor` registered.
template <std::derived_from<Actor> A>
class ActorTypeBuilder {
public:
  ActorTypeBuilder(std::shared_ptr<ActorType> type, TypeRegistry& registry)
    : type_(std::move(type)), registry_(&registry) {
    // nop
  }

  /// Registers a member function `(const In&[, ReplyStream<Out>&])` or a function `(A&, const In&[, ...])` as `name`.
  template <class F>
  ActorTypeBuilder& method(std::string name, F function) {
    if constexpr (std::is_member_function_pointer_v<F>)
      static_assert(std::is_base_of_v<typename detail::MethodSignature<F>::Object, A>,
                    "a method is a member of the actor's own class, or of a base of it");
    if constexpr (std::is_member_function_pointer_v<F>)
      return add<detail::MethodSignature<F>>(std::move(name), std::mem_fn(function));
    else
      return add<detail::Signature<F>>(std::move(name), std::move(function));
  }

  /// Registers the function of a method that `method` (`Method` or `StreamMethod`) declares with its messages.
  template <detail::DeclaredMethod M, class F>
  ActorTypeBuilder& method(const M& method, F function) {
    detail::check_implementation<M, detail::SignatureOfMember<F>>();
    return this->method(std::string{method.name()}, std::move(function));
  }

  /// Deleted: such a method must answer while others run. Register it with `concurrent_method`.
  template <detail::ConcurrentOnly M, class F>
  ActorTypeBuilder& method(const M& method, F function) = delete;

  /// Registers a const member function `(const In&) const` as `name`, which runs concurrently with the other methods,
  /// on a second thread of the actor, one call at a time: it answers even while another method runs for long. Data that
  /// both use must be atomic or protected by a mutex; `Actor`'s const members may be called. For progress, health and
  /// reading results: it must not use the device (contexts and streams belong to the actor's own thread) and does not
  /// stream.
  template <class F>
  ActorTypeBuilder& concurrent_method(std::string name, F function) {
    static_assert(detail::is_const_member<F>,
                  "a concurrent method is a const member function: R name(const In&) const");
    static_assert(!detail::SignatureOfMember<F>::streamed, "a concurrent method does not stream: others would wait");
    return add<detail::MethodSignature<F>>(std::move(name), std::mem_fn(function), true);
  }

  template <detail::DeclaredMethod M, class F>
  ActorTypeBuilder& concurrent_method(const M& method, F function) {
    detail::check_implementation<M, detail::SignatureOfMember<F>>();
    return concurrent_method(std::string{method.name()}, std::move(function));
  }

  /// Registers a member function `R (const BatchOf<In>&)` as `name`, which answers several calls at once: R is a
  /// `Result<std::vector<Out>>`, a `std::vector<Out>` or a `std::vector<Result<Out>>` with one answer for each call, in
  /// their order. To callers it is a method like any other. An error or exception fails all calls of the batch. In it,
  /// `Actor::deadline` returns `never` (use `BatchOf::deadline`), and the calls that it makes are part of no caller's
  /// trace.
  template <class F>
  ActorTypeBuilder& batch_method(std::string name, F function, BatchOptions options) {
    using S = detail::BatchSignature<F>;
    if constexpr (detail::check_batch_method<A, S>()) {
      MethodType method;
      method.name = std::move(name);
      method.input = S::In::descriptor();
      method.output = S::Out::descriptor();
      method.batch = options;
      method.run_batch = detail::make_batch_handler<S, Actor>(
          [function](Actor& actor, const auto& batch) { return std::invoke(function, static_cast<A&>(actor), batch); });
      register_method(std::move(method));
    }
    return *this;
  }

  /// Registers the function of a method that `method` (`Method`) declares with its messages.
  template <detail::DeclaredMethod M, class F>
  ActorTypeBuilder& batch_method(const M& method, F function, BatchOptions options) {
    using S = detail::BatchSignature<F>;
    static_assert(!M::streamed, "a method of a batch does not stream: its name is a Method");
    if constexpr (detail::check_batch_method<A, S>()) {
      static_assert(std::is_same_v<typename S::In, typename M::Input>,
                    "the function takes another message than its name says");
      static_assert(std::is_same_v<typename S::Out, typename M::Output>,
                    "the function answers with another message than its name says");
      return batch_method(std::string{method.name()}, function, options);
    }
    return *this;
  }

  template <detail::ConcurrentOnly M, class F>
  ActorTypeBuilder& batch_method(const M& method, F function, BatchOptions options) = delete;

  /// Sets the resources that the actor gets unless a spawn says otherwise.
  ActorTypeBuilder& needs(Needs needs) {
    registry_->check_needs("actor type " + type_->name, needs);
    type_->needs = needs;
    return *this;
  }

  /// Registers the methods that base classes provide by a static function template `register_methods(builder)`.
  /// `define_actor` calls this.
  void inherit() {
    if constexpr (requires { A::register_methods(*this); }) {
      inherits_ = true;
      A::register_methods(*this);
      inherits_ = false;
    }
  }

private:
  void register_method(MethodType method) {
    method.inherited = inherits_;
    registry_->add_method(*type_, std::move(method));
  }

  template <class S, class F>
  ActorTypeBuilder& add(std::string name, F function, bool concurrent = false) {
    MethodType method;
    method.name = std::move(name);
    method.concurrent = concurrent;
    method.input = S::In::descriptor();
    method.output = detail::ItemOf<S, S::streamed>::Type::descriptor();
    method.streamed = S::streamed;
    method.run = detail::make_handler<S, Actor>([function = std::move(function)](Actor& actor, auto&&... args) {
      return function(static_cast<A&>(actor), args...);
    });
    register_method(std::move(method));
    return *this;
  }

  std::shared_ptr<ActorType> type_;
  TypeRegistry* registry_;
  bool inherits_ = false;
};

/// Registers actor type `name`, constructed by `A(Init, const Config&)`, or `A(Init)` without a configuration.
template <std::derived_from<Actor> A, ProtobufMessage Config = google::protobuf::Empty>
ActorTypeBuilder<A> define_actor(std::string name, TypeRegistry& registry = TypeRegistry::global()) {
  ActorType type;
  type.name = std::move(name);
  type.config = Config::descriptor();
  type.ownership = A::ownership;
  type.make = [](Init init, const Payload& config) -> Result<std::unique_ptr<Actor>> {
    GPUACTORS_LET(message, config.share_as<Config>());
    if constexpr (std::is_constructible_v<A, Init, const Config&>) {
      return std::unique_ptr<Actor>{std::make_unique<A>(std::move(init), *message)};
    } else {
      static_assert(std::is_constructible_v<A, Init>, "an actor is made from (Init) or (Init, const Config&)");
      return std::unique_ptr<Actor>{std::make_unique<A>(std::move(init))};
    }
  };
  ActorTypeBuilder<A> builder{registry.add(std::move(type)), registry};
  builder.inherit();
  return builder;
}

/// Registers the actor type that `kind` declares with its configuration.
template <std::derived_from<Actor> A, ProtobufMessage Config>
ActorTypeBuilder<A> define_actor(const ActorKind<Config>& kind, TypeRegistry& registry = TypeRegistry::global()) {
  return define_actor<A, Config>(std::string{kind.name()}, registry);
}

} // namespace gpuactors

#define GPUACTORS_CONCAT_(a, b) a##b
#define GPUACTORS_CONCAT(a, b) GPUACTORS_CONCAT_(a, b)

/// Registers a task at namespace scope: `GPUACTORS_TASK("name", function);`, or with default resources:
/// `GPUACTORS_TASK("name", function).needs({.gpus = 1});`. Instead of "name", a `Task` or `StreamTask`.
#define GPUACTORS_TASK(name, ...)                                                                                      \
  [[maybe_unused]] static const auto GPUACTORS_CONCAT(gpuactors_task_, __COUNTER__) =                                  \
      ::gpuactors::define_task(name, __VA_ARGS__)

/// Registers an actor at namespace scope: `GPUACTORS_ACTOR("name", Class[, Config]).method("m", &Class::m);`. Instead
/// of "name" and the configuration, an `ActorKind`; instead of "m", a `Method` or `StreamMethod`.
#define GPUACTORS_ACTOR(name, ...)                                                                                     \
  [[maybe_unused]] static const auto GPUACTORS_CONCAT(gpuactors_actor_, __COUNTER__) =                                 \
      ::gpuactors::define_actor<__VA_ARGS__>(name)

#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/source_task.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/suggest.hpp>
#include <gpuactors/base/units.hpp>
#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace gpuactors {

namespace {

template <class Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  names.reserve(map.size());
  for (const auto& [name, value] : map)
    names.push_back(name);
  return names;
}

/// The names of types in a map, by their numbers.
template <class Map, class TypeOf>
std::vector<std::string> names_by_number(const Map& map, TypeOf type_of) {
  std::vector<std::string> names(map.size());
  for (const auto& [name, value] : map)
    names[type_of(value).number] = name;
  return names;
}

} // namespace

Result<const MethodType*> ActorType::find_method(std::string_view method) const {
  if (const auto found = methods.find(method); found != methods.end())
    return &found->second;
  return fail(Errc::not_found,
              fmt::format("actor type {} has no method \"{}\"{}", name, head_of(method, 2 * limits::name_length),
                          did_you_mean(method, names_of(methods))));
}

std::vector<std::string> ActorType::method_names() const {
  return names_by_number(
      methods, [](const MethodType& method) -> const auto& { return method; });
}

TypeRegistry& TypeRegistry::global() {
  static auto registry = [] {
    TypeRegistry made;
    define_source_task(made);
    return made;
  }();
  return registry;
}

std::shared_ptr<TaskType> TypeRegistry::add(TaskType task) {
  auto type = std::make_shared<TaskType>(std::move(task));
  type->number = tasks_.size();
  if (!is_type_name(type->name))
    add_problem(fmt::format("\"{}\" is no name for a task type: 1 to {} letters, digits, _ - . /", type->name,
                            limits::name_length));
  else if (!tasks_.emplace(type->name, type).second)
    add_problem(fmt::format("task type {} is registered twice", type->name));
  return type;
}

std::shared_ptr<ActorType> TypeRegistry::add(ActorType actor) {
  auto type = std::make_shared<ActorType>(std::move(actor));
  if (!is_type_name(type->name))
    add_problem(fmt::format("\"{}\" is no name for an actor type: 1 to {} letters, digits, _ - . /", type->name,
                            limits::name_length));
  else if (!actors_.emplace(type->name, type).second)
    add_problem(fmt::format("actor type {} is registered twice", type->name));
  return type;
}

void TypeRegistry::add_problem(std::string problem) {
  problems_.push_back(std::move(problem));
}

void TypeRegistry::add_method(ActorType& type, MethodType method) {
  const auto name = method.name;
  method.number = type.methods.size();
  if (!is_type_name(name))
    add_problem(fmt::format("actor type {}: \"{}\" is no name for a method: 1 to {} letters, digits, _ - . /",
                            type.name, name, limits::name_length));
  else if (method.batch && method.batch->max_size == 0)
    add_problem(
        fmt::format("actor type {}: max_size of method \"{}\" is 0: a batch has at least one call", type.name, name));
  else if (const auto found = type.methods.find(name); found == type.methods.end())
    type.methods.emplace(name, std::move(method));
  else if (found->second.inherited) {
    method.number = found->second.number;
    found->second = std::move(method);
  } else
    add_problem(fmt::format("actor type {} has two methods named \"{}\"", type.name, name));
}

void TypeRegistry::check_needs(const std::string& type, const Needs& needs) {
  const auto problem = [&](const Error& error) { add_problem(fmt::format("{}: {}", type, error.message())); };
  if (const auto gpus = parse_gpus(needs.gpus); !gpus)
    problem(gpus.error());
  if (const auto cpus = Share::from_double(needs.cpus, "cpus"); !cpus)
    problem(cpus.error());
}

TaskTypeBuilder& TaskTypeBuilder::needs(Needs needs) {
  registry_->check_needs("task type " + type_->name, needs);
  type_->needs = needs;
  return *this;
}

Result<void> TypeRegistry::check() const {
  if (!problems_.empty())
    return fail(Errc::invalid_argument, problems_.front());
  return {};
}

namespace {

Failure no_type(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  const std::string_view program = program_invocation_short_name;
  // A common mistake of newcomers: what runs here is a program of this project, and not the user's own.
  const auto* hint = !nearest_names(name, known).empty() || !program.starts_with("gpuactors") ? ""
                     : program == "gpuactors"
                         ? ": the program here is gpuactors; gpuactors node --program runs another one, and --plugin "
                           "adds the types of a library"
                         : ": --plugin adds the types of a library";
  return fail(Errc::not_found, fmt::format("there is no {} type \"{}\"{}{}", kind,
                                           head_of(name, 2 * limits::name_length), did_you_mean(name, known), hint));
}

} // namespace

Result<const TaskType*> TypeRegistry::find_task(std::string_view name) const {
  if (const auto found = tasks_.find(name); found != tasks_.end())
    return found->second.get();
  return no_type("task", name, names_of(tasks_));
}

Result<const ActorType*> TypeRegistry::find_actor(std::string_view name) const {
  if (const auto found = actors_.find(name); found != actors_.end())
    return found->second.get();
  return no_type("actor", name, names_of(actors_));
}

std::vector<std::string> TypeRegistry::task_names() const {
  return names_by_number(
      tasks_, [](const auto& task) -> const auto& { return *task; });
}

std::vector<const TaskType*> TypeRegistry::tasks() const {
  std::vector<const TaskType*> result;
  for (const auto& [name, type] : tasks_)
    result.push_back(type.get());
  return result;
}

std::vector<const ActorType*> TypeRegistry::actors() const {
  std::vector<const ActorType*> result;
  for (const auto& [name, type] : actors_)
    result.push_back(type.get());
  return result;
}

} // namespace gpuactors

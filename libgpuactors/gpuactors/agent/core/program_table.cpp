#include <gpuactors/agent/core/program_table.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace gpuactors {

namespace {

/// What callers of a type see of it.
std::string interface_of(const v1::TaskDescription& task) {
  return fmt::format("{} to {}{}", task.input(), task.streamed() ? "a stream of " : "", task.output());
}

std::string interface_of(const v1::ActorDescription& actor) {
  // In any order: a program registers them as it likes.
  std::set<std::string> methods;
  for (const auto& method : actor.methods())
    methods.insert(fmt::format("{}: {} to {}{}", method.name(), method.input(), method.streamed() ? "a stream of " : "",
                               method.output()));
  return fmt::format("{}, made from {}, with {}", actor.ownership(), actor.config(), fmt::join(methods, "; "));
}

/// The interfaces of the types of a kind, each with the program in which it was seen first.
using Seen = std::map<std::string, std::pair<std::string, std::string>>;

template <class List>
Result<void> compare(const char* kind, const List& types, const std::string& program, Seen& seen) {
  for (const auto& type : types) {
    const auto [first, is_new] = seen.try_emplace(type.name(), interface_of(type), program);
    if (const auto own = interface_of(type); !is_new && first->second.first != own)
      return fail(
          Errc::invalid_argument,
          fmt::format("{} type {} is one thing in {} ({}) and another in {} ({}): give one of them another name", kind,
                      type.name(), first->second.second, first->second.first, program, own));
  }
  return {};
}

template <class List>
bool contains(const List& types, std::string_view name) {
  return std::any_of(types.begin(), types.end(), [&](const auto& type) { return type.name() == name; });
}

template <class List>
void add_new(const List& from, List& to, std::set<std::string>& names) {
  for (const auto& type : from)
    if (names.insert(type.name()).second)
      *to.Add() = type;
}

} // namespace

bool WorkerProgram::has(const TypeWanted& type) const {
  if (!types || type.name.empty())
    return true;
  return type.kind == TypeWanted::Kind::task ? contains(types->tasks(), type.name)
                                             : contains(types->actors(), type.name);
}

ProgramTable::ProgramTable() : programs_{std::make_shared<WorkerProgram>()} {
  // nop
}

Result<ProgramTable> ProgramTable::make(std::vector<WorkerProgram> programs) {
  if (programs.empty())
    return fail(Errc::invalid_argument, "a node needs a program for its workers");
  ProgramTable table;
  table.programs_.clear();
  Seen tasks;
  Seen actors;
  for (auto& program : programs) {
    if (program.types) {
      GPUACTORS_TRY(compare("task", program.types->tasks(), program.name, tasks));
      GPUACTORS_TRY(compare("actor", program.types->actors(), program.name, actors));
    }
    program.number = table.programs_.size();
    table.programs_.push_back(std::make_shared<const WorkerProgram>(std::move(program)));
  }
  table.collect_types();
  if (!table.types_)
    return table;
  if (const auto count = tasks.size() + actors.size(); count > limits::types_per_node)
    return fail(Errc::invalid_argument, fmt::format("the programs of the node have {} types together: at most {} are "
                                                    "allowed",
                                                    count, limits::types_per_node));
  if (const auto bytes = table.types_->ByteSizeLong(); bytes > limits::catalog_bytes)
    return fail(Errc::invalid_argument, fmt::format("the descriptions of all types of the node's programs take {}: at "
                                                    "most {} are allowed",
                                                    format_bytes(bytes), format_bytes(limits::catalog_bytes)));
  return table;
}

Result<ProgramTable> ProgramTable::from_wire(const v1::NodePrograms& message) {
  std::vector<WorkerProgram> programs;
  for (const auto& each : message.each()) {
    auto& program = programs.emplace_back();
    program.name = each.name();
    if (each.has_types())
      program.types = each.types();
  }
  return make(std::move(programs));
}

ProgramTable::Program ProgramTable::find(const TypeWanted& type) const {
  for (const auto& program : programs_)
    if (withdrawn_.count(program->number) == 0 && program->has(type))
      return program;
  return nullptr;
}

bool ProgramTable::has(const Program& program) const {
  return std::find(programs_.begin(), programs_.end(), program) != programs_.end();
}

bool ProgramTable::withdraw(std::size_t number) {
  const bool first = withdrawn_.insert(number).second;
  collect_types();
  return first;
}

void ProgramTable::collect_types() {
  types_.emplace();
  std::set<std::string> tasks;
  std::set<std::string> actors;
  std::set<std::string> files;
  for (const auto& program : programs_) {
    if (withdrawn_.count(program->number) > 0)
      continue;
    if (!program->types)
      return types_.reset();
    add_new(program->types->tasks(), *types_->mutable_tasks(), tasks);
    add_new(program->types->actors(), *types_->mutable_actors(), actors);
    for (const auto& file : program->types->files())
      if (files.insert(file).second)
        types_->add_files(file);
  }
}

} // namespace gpuactors

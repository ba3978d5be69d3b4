// Programs for tests of an agent's core: each is a name and the types of tasks that it has.
#pragma once

#include <gpuactors/agent/core/program_table.hpp>

#include <support/results.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace agent_test {

/// A program with tasks of these types.
inline gpuactors::WorkerProgram program(const std::string& name, const std::vector<std::string>& tasks,
                                        const std::string& input = "In") {
  gpuactors::WorkerProgram result;
  result.name = name;
  result.types.emplace();
  for (const auto& task : tasks) {
    auto* type = result.types->add_tasks();
    type->set_name(task);
    type->set_input(input);
    type->set_output("Out");
  }
  return result;
}

inline gpuactors::ProgramTable programs(std::vector<gpuactors::WorkerProgram> all) {
  return gpuactors::test::must(gpuactors::ProgramTable::make(std::move(all)));
}

inline gpuactors::ProgramTable two_programs() {
  return programs({program("vision", {"see", "both"}), program("speech", {"hear", "both"})});
}

inline std::vector<std::string> tasks_of(const std::optional<gpuactors::v1::TypeCatalog>& types) {
  std::vector<std::string> names;
  for (const auto& task : types->tasks())
    names.push_back(task.name());
  return names;
}

} // namespace agent_test

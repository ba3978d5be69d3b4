// ProgramTable: the programs that a node's workers run, and which of them runs tasks and actors of a type. Pure values.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuactors {

/// What a lease is for: tasks of a type, or an actor of it.
struct TypeWanted {
  enum class Kind : std::uint8_t { task, actor };

  Kind kind = Kind::task;
  /// Empty: unknown.
  std::string_view name;
};

/// One of a node's programs.
struct WorkerProgram {
  /// Its place in the order in which the node was given them.
  std::size_t number = 0;
  /// For display; no other program of the node has it.
  std::string name{};
  /// Its types; nothing: unknown, it counts as having all.
  std::optional<v1::TypeCatalog> types{};

  [[nodiscard]] bool has(const TypeWanted& type) const;
};

class ProgramTable {
public:
  using Program = std::shared_ptr<const WorkerProgram>;

  /// One program without a name, whose types are unknown.
  ProgramTable();

  /// @param programs at least one. Their numbers are given anew.
  /// @returns `invalid_argument` if two of them have types of one name and other messages, or if all have more types
  ///          or messages than a node may (`limits::types_per_node`, `limits::catalog_bytes`).
  static Result<ProgramTable> make(std::vector<WorkerProgram> programs);

  /// The same as messages. A single program without types is one whose types are unknown.
  static Result<ProgramTable> from_wire(const v1::NodePrograms& message);

  [[nodiscard]] std::size_t size() const noexcept {
    return programs_.size();
  }

  /// Returns the first program that has the type and is not withdrawn; null if none is.
  [[nodiscard]] Program find(const TypeWanted& type) const;

  /// Returns whether it is one of these, and not of an earlier table.
  [[nodiscard]] bool has(const Program& program) const;

  /// Takes a program's types away. @returns whether it had been there.
  bool withdraw(std::size_t number);

  /// Returns the types of all programs that are not withdrawn; nothing: unknown. Where several have one, it is
  /// described once.
  [[nodiscard]] const std::optional<v1::TypeCatalog>& types() const noexcept {
    return types_;
  }

private:
  void collect_types();

  std::vector<Program> programs_;
  std::set<std::size_t> withdrawn_;
  std::optional<v1::TypeCatalog> types_;
};

} // namespace gpuactors

// Descriptions of other processes' types, for programs that do not have these types themselves, such as the command
// line.
#pragma once

#include <gpuactors/actor/catalog.hpp>
#include <gpuactors/wire/message_types.hpp>

#include <memory>
#include <string_view>

namespace gpuactors {

/// Descriptions of tasks and actors. Pointers that it returns are valid as long as a copy of the object lives.
///
///   GPUACTORS_LET(types, cluster.described_types());
///   GPUACTORS_LET(task, types.find_task("scale"));
///   GPUACTORS_LET(input, types.messages().from_json(task->input(), R"({"factor":2})"));
///   GPUACTORS_LET(reply, cluster.submit_payload(task->name(), std::move(input)).get());
///   GPUACTORS_LET(json, types.messages().to_json(reply));
///
/// The catalog may come from an untrusted source: entries that break the rules of names are left out, and so are
/// invalid messages (`MessageTypes`). Immutable; cheap to copy; any thread.
class DescribedTypes {
public:
  explicit DescribedTypes(v1::TypeCatalog catalog);

  /// Returns the descriptions of this program's types.
  static DescribedTypes of(const TypeRegistry& registry);

  /// Find a description by name. @returns `not_found` with similar names.
  [[nodiscard]] Result<const v1::TaskDescription*> find_task(std::string_view name) const;
  [[nodiscard]] Result<const v1::ActorDescription*> find_actor(std::string_view name) const;
  static Result<const v1::MethodDescription*> find_method(const v1::ActorDescription& actor, std::string_view method);

  /// Returns tasks, actors and methods in the order of their names.
  [[nodiscard]] const v1::TypeCatalog& catalog() const noexcept {
    return *catalog_;
  }

  [[nodiscard]] const MessageTypes& messages() const noexcept {
    return messages_;
  }

private:
  std::shared_ptr<const v1::TypeCatalog> catalog_;
  MessageTypes messages_;
};

} // namespace gpuactors

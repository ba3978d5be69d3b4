// Reads the objects of a scenario, field by field, and reports errors with their places. Throws `ScenarioError`;
// run_plan catches it.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/ledger/group.hpp>
#include <gpuactors/ledger/node.hpp>

#include <nlohmann/json.hpp>

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace gpuactors::plan_detail {

using Json = nlohmann::json;

/// The scenario is in error; the text names the place.
struct ScenarioError : std::exception {
  explicit ScenarioError(std::string text) : message(std::move(text)) {
    // nop
  }

  [[nodiscard]] const char* what() const noexcept override {
    return message.c_str();
  }

  std::string message;
};

/// A request to submit. `refused` is the reason if the rules for requests refuse it: that is an answer, not an error.
struct Submit {
  std::string id;
  ResourceRequest request;
  std::string type;
  std::string group;
  std::string parent;
  std::string refused;
};

struct SubmitGroup {
  std::string id;
  GroupRequest request;
  std::string refused;
};

/// The quota of an owner; nothing removes it.
struct QuotaStep {
  std::string owner;
  std::optional<Share> limit;
};

/// The types of a node; nothing: unknown.
struct TypesStep {
  std::string node;
  std::optional<std::vector<std::string>> types;
};

/// One object of a scenario and its place, such as `steps[3].submit`.
class Reader {
public:
  /// @throws ScenarioError when `value` is not an object or has a field that is not in `known`.
  Reader(const Json& value, std::string place, const std::vector<std::string>& known);

  [[nodiscard]] bool has(const char* field) const;

  /// Returns the field's value. @throws ScenarioError if the field is missing.
  [[nodiscard]] const Json& at(const char* field) const;

  /// Returns the place of a field: "steps[3].submit.gpus".
  [[nodiscard]] std::string place_of(const std::string& field) const;

  [[nodiscard]] std::string text(const char* field) const;
  [[nodiscard]] std::string text_or_empty(const char* field) const;
  [[nodiscard]] bool flag(const char* field, bool otherwise) const;
  /// Returns an integer of at least `least`, given as a JSON number or string; `otherwise` if the field is missing.
  [[nodiscard]] std::int64_t integer(const char* field, std::int64_t least, std::int64_t otherwise) const;
  /// Returns a number of at least 0.
  [[nodiscard]] double number(const char* field) const;
  [[nodiscard]] std::map<std::string, std::string> texts(const char* field) const;
  /// Returns conditions on labels: a string, an array of strings, {"in": [...]}, {"not_in": [...]} or {"exists":
  /// true|false}.
  [[nodiscard]] LabelConditions conditions(const char* field) const;
  [[nodiscard]] std::map<std::string, double> numbers(const char* field) const;
  /// Returns an array; empty if the field is missing.
  [[nodiscard]] const Json& array(const char* field) const;

private:
  const Json& value_;
  std::string place_;
};

/// Read one object of a scenario. @throws ScenarioError if it breaks the format.
[[nodiscard]] NodeSpec read_node(const Json& value, const std::string& place);
[[nodiscard]] Submit read_submit(const Json& value, const std::string& place);
[[nodiscard]] SubmitGroup read_group(const Json& value, const std::string& place);
[[nodiscard]] QuotaStep read_quota(const Json& value, const std::string& place);
[[nodiscard]] TypesStep read_types(const Json& value, const std::string& place);

} // namespace gpuactors::plan_detail

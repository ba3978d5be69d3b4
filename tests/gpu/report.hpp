// What was measured: one table for people, one JSON for programs.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace gpuactors::gpu {

enum class Verdict { pass, fail, info, skip };

struct Row {
  std::string name;
  Verdict verdict = Verdict::info;
  /// For people.
  std::string text;
  /// What must be true; empty: only stated.
  std::string target;
  /// The numbers behind the text.
  nlohmann::json values = nlohmann::json::object();
};

class Report {
public:
  /// @param judging without it targets are stated, not judged: sizes were too small to mean anything.
  explicit Report(bool judging) : judging_(judging) {
    // nop
  }

  /// What the rows are about: device, driver, versions.
  nlohmann::json& about() noexcept {
    return about_;
  }

  /// Prints the row and keeps it.
  void add(Row row);

  /// A row with a target.
  void judge(std::string name, bool met, std::string text, std::string target,
             nlohmann::json values = nlohmann::json::object());

  void state(std::string name, std::string text, nlohmann::json values = nlohmann::json::object());
  void skip(std::string name, std::string why);
  /// Something that should have worked did not.
  void fail(std::string name, std::string why);

  [[nodiscard]] int count(Verdict verdict) const;
  [[nodiscard]] nlohmann::json to_json() const;

private:
  bool judging_;
  nlohmann::json about_ = nlohmann::json::object();
  std::vector<Row> rows_;
};

} // namespace gpuactors::gpu

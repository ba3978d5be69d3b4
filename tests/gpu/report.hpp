// What was measured: one table for people, one JSON for programs.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpuactors::gpu {

/// `open`: nobody could try yet.
enum class Verdict { pass, fail, info, skip, open };

struct Row {
  std::string name;
  Verdict verdict = Verdict::info;
  /// For people.
  std::string text;
  /// What must be true; empty: only stated.
  std::string target;
  /// The numbers behind the text.
  nlohmann::json values = nlohmann::json::object();
  /// The measurement or program that it came from.
  std::string from = {};
  /// The GPU's UUID and the build that it is of: those that the table was about when it came.
  std::string uuid = {};
  std::string revision = {};
};

class Report {
public:
  /// @param judging without it targets are stated, not judged: sizes were too small to mean anything.
  /// @param file that holds the table as JSON after each row, so that what ends the program loses no row; empty: none.
  explicit Report(bool judging, std::string file = {}) : judging_(judging), file_(std::move(file)) {
    // nop
  }

  /// The table of a file, to be gone on with there; an empty one when there is no such file.
  /// @returns nothing when it holds something else.
  static std::optional<Report> read(const std::string& file);

  /// As in the constructor, for a table that was read.
  void set_judging(bool judging) noexcept {
    judging_ = judging;
  }

  /// The rows that follow are of this measurement: those of an earlier run of it go.
  void begin(const std::string& measurement);

  /// What the rows that follow are about: device, driver, versions.
  nlohmann::json& about() noexcept {
    return about_;
  }

  /// Writes the table as it is, if there is a file for it.
  void write();

  /// Prints the row and keeps it, in the place of one of the same name from the same measurement.
  void add(Row row);

  /// Whether all rows are in the file.
  [[nodiscard]] bool is_written() const noexcept {
    return written_;
  }

  /// A row with a target.
  void judge(std::string name, bool met, std::string text, std::string target,
             nlohmann::json values = nlohmann::json::object());

  void state(std::string name, std::string text, nlohmann::json values = nlohmann::json::object());
  void skip(std::string name, std::string why);
  /// Something that there was no time for.
  void leave_open(std::string name, std::string why);
  /// Something that should have worked did not.
  void fail(std::string name, std::string why);

  /// The measurements and programs of which no row is open, and none of another GPU or build.
  [[nodiscard]] std::set<std::string> settled() const;

  /// How many rows are of another GPU or build than what the table is about now.
  [[nodiscard]] int count_others() const;

  [[nodiscard]] int count(Verdict verdict) const;
  [[nodiscard]] nlohmann::json to_json() const;

private:
  [[nodiscard]] bool is_of_this(const Row& row) const;

  bool judging_;
  std::string file_;
  std::string measurement_;
  bool written_ = true;
  nlohmann::json about_ = nlohmann::json::object();
  std::vector<Row> rows_;
};

} // namespace gpuactors::gpu

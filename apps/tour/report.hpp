// What the tour found: rows of results with their checks, and the table and JSON made of them.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tour {

/// Seconds since it was made.
class Stopwatch {
public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One line of the table: a result and the checks that it had to pass. A row that nothing checked has failed.
class Row {
public:
  Row(std::string program, std::string title) : program_(std::move(program)), title_(std::move(title)) {
    // nop
  }

  /// Where it ran, for example "host 0, share 0.5".
  std::string device;
  /// What came out, for people.
  std::string result;
  /// Time of the computation if the program measured it, else that of the whole row.
  std::optional<double> seconds;

  /// Holds `condition` to be true; `expectation` says what was expected and what came.
  template <class... Args>
  bool check(bool condition, fmt::format_string<Args...> expectation, Args&&... args) {
    ++checks_;
    if (!condition)
      failures_.push_back(fmt::format(expectation, std::forward<Args>(args)...));
    return condition;
  }

  /// Holds the relative error against a float64 reference to be at most `tolerance`.
  bool check_error(double error, double tolerance);

  /// Notes that the program could not go on.
  void add_failure(std::string what) {
    failures_.push_back(std::move(what));
  }

  /// Ends the row: stops its clock, and fails it if nothing was checked.
  void close();

  [[nodiscard]] bool ok() const noexcept {
    return failures_.empty();
  }

  [[nodiscard]] const std::string& program() const noexcept {
    return program_;
  }

  [[nodiscard]] const std::string& title() const noexcept {
    return title_;
  }

  [[nodiscard]] const std::vector<std::string>& failures() const noexcept {
    return failures_;
  }

  [[nodiscard]] std::optional<double> error() const noexcept {
    return error_;
  }

  [[nodiscard]] double tolerance() const noexcept {
    return tolerance_;
  }

private:
  std::string program_;
  std::string title_;
  Stopwatch watch_;
  std::optional<double> error_;
  double tolerance_ = 0;
  int checks_ = 0;
  std::vector<std::string> failures_;
};

/// All rows in the order in which they were made; references to rows stay valid.
using Rows = std::deque<Row>;

/// The table for people, with what failed below it.
[[nodiscard]] std::string to_table(const Rows& rows);

/// One JSON array of objects, see RowReport in tour.proto.
[[nodiscard]] std::string to_json(const Rows& rows);

} // namespace tour

// Checks of one row, and how rows are printed.
#include "report.hpp"

#include "tour.pb.h"

#include <gpuactors/gpuactors.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace tour {

namespace {

constexpr std::size_t columns = 7;
using Line = std::array<std::string, columns>;

Line line_of(const Row& row) {
  return {row.program(),
          row.title(),
          row.device,
          row.result,
          row.error() ? fmt::format("{:.1e} (of {:.0e})", *row.error(), row.tolerance()) : "-",
          fmt::format("{:.3f} s", row.seconds.value_or(0)),
          row.ok() ? "ok" : "FAILED"};
}

RowReport report_of(const Row& row) {
  RowReport report;
  report.set_program(row.program());
  report.set_title(row.title());
  report.set_device(row.device);
  report.set_result(row.result);
  if (row.error()) {
    report.mutable_error()->set_value(*row.error());
    report.mutable_tolerance()->set_value(row.tolerance());
  }
  report.set_seconds(row.seconds.value_or(0));
  report.set_ok(row.ok());
  for (const auto& failure : row.failures())
    report.add_failures(failure);
  return report;
}

} // namespace

bool Row::check_error(double error, double tolerance) {
  // The worst of several comparisons is shown. A NaN compares false and so fails.
  if (!error_ || !(error <= *error_))
    error_ = error;
  tolerance_ = tolerance;
  return check(error <= tolerance,
               "a relative error of at most {:.1e} against the float64 reference was expected, {:.3e} came", tolerance,
               error);
}

void Row::close() {
  if (!seconds)
    seconds = watch_.seconds();
  if (checks_ == 0 && failures_.empty())
    failures_.emplace_back("at least one check was expected, none was made");
}

std::string to_table(const Rows& rows) {
  std::vector<Line> lines{{"", "program", "device and share", "result", "error (allowed)", "time", ""}};
  for (const auto& row : rows)
    lines.push_back(line_of(row));
  std::array<std::size_t, columns> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < columns; ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string table;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < columns; ++i)
      text += fmt::format("{:<{}}  ", line[i], widths[i]);
    table += text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
    if (&line == &lines.front()) {
      std::size_t total = 0;
      for (const auto width : widths)
        total += width + 2;
      table += std::string(total - 2, '-') + '\n';
    }
  }
  for (const auto& row : rows)
    for (const auto& failure : row.failures())
      table += fmt::format("{} {} FAILED: {}\n", row.program(), row.title(), failure);
  return table;
}

std::string to_json(const Rows& rows) {
  std::string json = "[";
  for (const auto& row : rows) {
    if (json.size() > 1)
      json += ",\n ";
    // A row that cannot be rendered still has its place in the array.
    auto object = gpuactors::message_to_json(report_of(row));
    json += object ? *object : fmt::format("{{\"program\":\"{}\",\"ok\":false}}", row.program());
  }
  return json + "]\n";
}

} // namespace tour

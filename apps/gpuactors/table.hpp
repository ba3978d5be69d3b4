// Tables for people: columns as wide as their widest cell.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace gpuactors::cli {

/// Rows of text under titles. A title that begins with ">" aligns its column to the right.
class Table {
public:
  explicit Table(std::vector<std::string> titles);

  /// Adds a row with a cell for each column. A cell of several lines becomes one: it would pass for rows of the table.
  /// Control characters are shown as `plain_text` shows them, so that all of the row is as wide as it looks.
  void add(std::vector<std::string> row);

  /// Writes titles and rows, without blanks at the ends of lines.
  void print(std::ostream& out) const;

private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace gpuactors::cli

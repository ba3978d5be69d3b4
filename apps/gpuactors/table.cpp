#include "table.hpp"

#include <apps/cli/plain_output.hpp>
#include <apps/cli/usage.hpp>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string_view>

namespace gpuactors::cli {

namespace {

constexpr std::size_t gap = 2;

/// How many characters of plain text a terminal shows. Colours are all that is left in it of what terminals obey.
std::size_t width_of(std::string_view cell) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < cell.size(); ++i)
    if (cell[i] == '\x1b')
      i = std::min(cell.find('m', i), cell.size() - 1);
    else if ((static_cast<unsigned char>(cell[i]) & 0xc0U) != 0x80U) // not a byte of the character before
      ++width;
  return width;
}

} // namespace

Table::Table(std::vector<std::string> titles) {
  for (auto& title : titles) {
    right_.push_back(title.starts_with(">"));
    if (right_.back())
      title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> row) {
  row.resize(right_.size());
  for (auto& cell : row)
    cell = plain_text(one_line(cell));
  rows_.push_back(std::move(row));
}

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      line += std::string(i == 0 ? 0 : gap, ' ') + (right_[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

} // namespace gpuactors::cli

#include "csv.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Bytes of one line: more is no table of numbers.
constexpr std::size_t most_line_bytes = std::size_t{16} << 20;
constexpr unsigned int read_buffer_bytes = 256U << 10;
/// Characters of a field that an error shows.
constexpr std::size_t shown_characters = 40;
/// Numbers of a whole file: 16 GiB of them.
constexpr std::size_t most_numbers = std::size_t{1} << 32;
constexpr std::int64_t most_rows = std::numeric_limits<std::int32_t>::max();

/// The lines of a file, whether it is gzipped or not.
class Lines {
public:
  Lines(const std::filesystem::path& path, gzFile file) : path_(path), file_(file, &gzclose) {
    gzbuffer(file, read_buffer_bytes);
  }

  /// Reads the next line, without its end; false when there is none.
  Result<bool> next(std::string& line) {
    line.clear();
    ++number_;
    for (auto begin = gztell(file_.get());
         gzgets(file_.get(), piece_.data(), static_cast<int>(piece_.size())) != nullptr; begin = gztell(file_.get())) {
      const std::string_view text{piece_.data()};
      // The text ends at the first 0, wherever that is in what was read.
      if (gztell(file_.get()) - begin != static_cast<z_off_t>(text.size()))
        return wrong("has a byte 0 in it: this is no text");
      line += text;
      if (!text.empty() && text.back() == '\n') {
        line.pop_back();
        if (!line.empty() && line.back() == '\r')
          line.pop_back();
        return true;
      }
      if (line.size() > most_line_bytes)
        return wrong(fmt::format("is longer than {} MiB", most_line_bytes >> 20U));
    }
    int code = Z_OK;
    const char* words = gzerror(file_.get(), &code);
    if (code != Z_OK && code != Z_STREAM_END)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("{} cannot be read beyond line {}: {}", path_.string(), number_ - 1,
                                         code == Z_ERRNO ? std::strerror(errno) : words));
    return !line.empty();
  }

  /// An error of the line that was read last.
  [[nodiscard]] gpuactors::Failure wrong(std::string_view what) const {
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{}, line {} {}", path_.string(), number_, what));
  }

  [[nodiscard]] std::size_t number() const noexcept {
    return number_;
  }

private:
  const std::filesystem::path& path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
  std::array<char, 64U << 10> piece_;
  std::size_t number_ = 0;
};

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

/// The numbers of a line, in the place of what was in `values`.
Result<void> parse_line(const Lines& lines, std::string_view line, std::vector<double>& values) {
  values.clear();
  for (std::size_t column = 1;; ++column) {
    const auto end = std::min(line.find(','), line.size());
    const auto field = trim(line.substr(0, end));
    double value = 0;
    const auto [parsed, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (field.empty())
      return lines.wrong(fmt::format("has nothing in column {}; a number is due", column));
    if (error == std::errc::result_out_of_range || (error == std::errc{} && !std::isfinite(static_cast<float>(value))))
      return lines.wrong(fmt::format("has {} in column {}; a finite number of single precision is due",
                                     field.substr(0, shown_characters), column));
    if (error != std::errc{} || parsed != field.data() + field.size())
      return lines.wrong(fmt::format("has \"{}\" in column {}; a number is due{}", field.substr(0, shown_characters),
                                     column, lines.number() == 1 ? " (--header passes over a line of names)" : ""));
    values.push_back(value);
    if (end == line.size())
      return {};
    line.remove_prefix(end + 1);
  }
}

Result<void> add_row(const Lines& lines, const std::vector<double>& values, Table& table) {
  const auto inputs = static_cast<std::int64_t>(values.size()) - 1;
  if (table.rows == 0) {
    if (inputs < 1)
      return lines.wrong("has one column; at least one number and a label are due");
    table.inputs = inputs;
  }
  if (inputs != table.inputs)
    return lines.wrong(fmt::format("has {} columns; the rows before it have {}", inputs + 1, table.inputs + 1));
  const auto label = values.back();
  if (label != std::floor(label) || label < 0 || label > most_label)
    return lines.wrong(
        fmt::format("has the label {} in its last column; a whole number from 0 to {} is due", label, most_label));
  if (table.rows == most_rows)
    return lines.wrong(fmt::format("is one too many: {} rows are the most", most_rows));
  if (table.features.size() + static_cast<std::size_t>(inputs) > most_numbers)
    return lines.wrong(fmt::format("is one too many: {} numbers are the most", most_numbers));
  for (std::int64_t i = 0; i < inputs; ++i)
    table.features.push_back(static_cast<float>(values[static_cast<std::size_t>(i)]));
  table.labels.push_back(static_cast<std::int32_t>(label));
  table.classes = std::max(table.classes, static_cast<std::int64_t>(label) + 1);
  ++table.rows;
  return {};
}

} // namespace

Result<Table> read_csv(const std::filesystem::path& path, bool header) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is a folder, not a file of numbers", path.string()));
  errno = 0;
  auto* file = gzopen(path.c_str(), "rbe");
  if (file == nullptr)
    return gpuactors::fail(errno == ENOENT ? Errc::not_found : Errc::unavailable,
                           fmt::format("{} cannot be read: {}", path.string(), std::strerror(errno)));
  Lines lines{path, file};
  Table table;
  std::string line;
  std::vector<double> values;
  if (header)
    GPUACTORS_TRY(lines.next(line));
  std::size_t blank = 0;
  for (;;) {
    GPUACTORS_LET(more, lines.next(line));
    if (!more)
      break;
    if (trim(line).empty()) { // allowed at the end only
      blank = blank == 0 ? lines.number() : blank;
      continue;
    }
    if (blank != 0)
      return gpuactors::fail(Errc::invalid_argument, fmt::format("{}, line {} is empty", path.string(), blank));
    GPUACTORS_TRY(parse_line(lines, line, values));
    GPUACTORS_TRY(add_row(lines, values, table));
  }
  if (table.rows == 0)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} has no row of numbers: it ends before line {}",
                                                               path.string(), header ? 2 : 1));
  return table;
}

} // namespace train

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace gpuactors {

namespace {

using std::chrono::days;
using std::chrono::microseconds;

constexpr std::string_view time_pattern = "0000-00-00T00:00:00.000000Z";

std::string render_time(LogTime time) {
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{std::chrono::floor<microseconds>(time - day)};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::optional<LogTime> parse_time(std::string_view text) {
  if (text.size() != time_pattern.size())
    return {};
  for (std::size_t i = 0; i < text.size(); ++i)
    if (time_pattern[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != time_pattern[i])
      return {};
  const auto number = [text](std::size_t from, std::size_t count) {
    int value = 0;
    std::from_chars(text.data() + from, text.data() + from + count, value);
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year{number(0, 4)},
                                         std::chrono::month{static_cast<unsigned>(number(5, 2))},
                                         std::chrono::day{static_cast<unsigned>(number(8, 2))}};
  if (!date.ok())
    return {};
  return std::chrono::sys_days{date} + std::chrono::hours{number(11, 2)} + std::chrono::minutes{number(14, 2)}
         + std::chrono::seconds{number(17, 2)} + microseconds{number(20, 6)};
}

std::string one_line(std::string_view text) {
  auto result = to_utf8(text);
  std::replace(result.begin(), result.end(), '\n', ' ');
  return result;
}

std::string field(std::string_view text) {
  auto result = one_line(text);
  std::replace(result.begin(), result.end(), '\t', ' ');
  return result;
}

} // namespace

std::string_view to_string(OutputStream stream) noexcept {
  return stream == OutputStream::out ? "stdout" : "stderr";
}

std::string to_string(const LogLine& line) {
  return fmt::format("{}\t{}\t{}\t{}\t{}", render_time(line.time), field(line.node), field(line.source),
                     to_string(line.stream), one_line(line.text));
}

std::optional<LogLine> parse_log_line(std::string_view text) {
  std::array<std::string_view, 4> fields;
  for (auto& part : fields) {
    const auto end = text.find('\t');
    if (end == std::string_view::npos)
      return {};
    part = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  const auto time = parse_time(fields[0]);
  const bool is_err = fields[3] == to_string(OutputStream::err);
  if (!time || (!is_err && fields[3] != to_string(OutputStream::out)))
    return {};
  // A line may have been cut within a character, and no message can carry half of one.
  return LogLine{*time, to_utf8(fields[1]), to_utf8(fields[2]), is_err ? OutputStream::err : OutputStream::out,
                 to_utf8(text)};
}

} // namespace gpuactors

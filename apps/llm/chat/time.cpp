// Dates and times as strftime writes them in the C locale.
#include <apps/llm/chat/functions.hpp>

#include <fmt/format.h>

namespace llm::chat {

namespace {

constexpr std::string_view months[] = {"January", "February", "March",     "April",   "May",      "June",
                                       "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

struct Moment {
  int year, month, day, weekday, day_of_year, hour, minute, second;
};

Moment take_apart(std::chrono::local_seconds time) {
  using namespace std::chrono;
  const auto date = floor<std::chrono::days>(time);
  const year_month_day calendar{date};
  const hh_mm_ss clock{time - date};
  const auto first = local_days{calendar.year() / January / 1};
  return {static_cast<int>(calendar.year()),
          static_cast<int>(static_cast<unsigned>(calendar.month())),
          static_cast<int>(static_cast<unsigned>(calendar.day())),
          static_cast<int>(weekday{date}.c_encoding()),
          static_cast<int>((date - first).count()) + 1,
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count())};
}

int hour_of_clock(int hour) {
  return hour % 12 == 0 ? 12 : hour % 12;
}

/// The number that a directive stands for, with two or three digits, or null.
std::optional<std::pair<int, int>> find_number(const Moment& moment, char directive) {
  switch (directive) {
  case 'd':
    return std::pair{moment.day, 2};
  case 'm':
    return std::pair{moment.month, 2};
  case 'y':
    return std::pair{moment.year % 100, 2};
  case 'H':
    return std::pair{moment.hour, 2};
  case 'I':
    return std::pair{hour_of_clock(moment.hour), 2};
  case 'M':
    return std::pair{moment.minute, 2};
  case 'S':
    return std::pair{moment.second, 2};
  case 'j':
    return std::pair{moment.day_of_year, 3};
  default:
    return std::nullopt;
  }
}

std::optional<std::string> print(const Moment& moment, std::string_view directive) {
  if (directive.size() == 2) { // %-d: without zeros before it
    const auto number = find_number(moment, directive[1]);
    return number ? std::optional{fmt::format("{}", number->first)} : std::nullopt;
  }
  if (const auto number = find_number(moment, directive[0]))
    return fmt::format("{:0{}}", number->first, number->second);
  const auto month = months[moment.month - 1];
  const auto day = days[moment.weekday];
  switch (directive[0]) {
  case 'Y':
    return fmt::format("{}", moment.year);
  case 'B':
    return std::string{month};
  case 'b':
  case 'h':
    return std::string{month.substr(0, 3)};
  case 'A':
    return std::string{day};
  case 'a':
    return std::string{day.substr(0, 3)};
  case 'p':
    return moment.hour < 12 ? "AM" : "PM";
  case 'e':
    return fmt::format("{:2}", moment.day);
  case 'F':
    return fmt::format("{}-{:02}-{:02}", moment.year, moment.month, moment.day);
  case 'T':
    return fmt::format("{:02}:{:02}:{:02}", moment.hour, moment.minute, moment.second);
  case 'R':
    return fmt::format("{:02}:{:02}", moment.hour, moment.minute);
  case '%':
    return "%";
  default:
    return std::nullopt;
  }
}

} // namespace

Result<std::string> print_time(std::chrono::local_seconds time, std::string_view format) {
  const auto moment = take_apart(time);
  if (moment.year < 1000 || moment.year > 9999)
    return unknown(fmt::format("writes the year {}, which has no four digits", moment.year));
  std::string text;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    const auto directive = format.substr(at + 1, format.substr(at + 1, 1) == "-" ? 2 : 1);
    const auto printed = directive.empty() || directive == "-" ? std::nullopt : print(moment, directive);
    if (!printed)
      return unknown(fmt::format("writes the time by %{}, which is unknown", directive));
    text += *printed;
    at += directive.size();
  }
  return text;
}

} // namespace llm::chat

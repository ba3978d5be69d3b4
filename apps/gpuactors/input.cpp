#include "input.hpp"

#include <gpuactors/base/units.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <streambuf>
#include <system_error>

namespace gpuactors::cli {

namespace {

constexpr double most_seconds = 366.0 * 86'400;

/// Standard input, read in pieces. std::cin is ten times slower, unless it is told not to synchronize with stdio: which
/// also puts new buffers behind std::cout, in the place of the one that makes text plain, and behind std::cerr, which
/// several threads write to.
class StandardInput : public std::streambuf {
protected:
  int_type underflow() override {
    auto count = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    while (count < 0 && errno == EINTR)
      count = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    if (count < 0) // as std::filebuf does; a stream then is bad
      throw std::ios_base::failure{"standard input cannot be read", {errno, std::generic_category()}};
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return count == 0 ? traits_type::eof() : traits_type::to_int_type(buffer_.front());
  }

private:
  std::array<char, 65'536> buffer_{};
};

/// A stream with the buffer that it reads from.
struct StandardInputStream : private StandardInput, public std::istream {
  StandardInputStream() : std::istream(static_cast<StandardInput*>(this)) {
    // nop
  }
};

} // namespace

Result<double> parse_number(const std::string& what, const std::string& text) {
  const auto value = parse_double(text);
  if (!value)
    return fail(Errc::invalid_argument, fmt::format("{} is \"{}\": a number is expected", what, text));
  return *value;
}

Result<std::int64_t> parse_integer(const std::string& what, const std::string& text, std::int64_t least,
                                   std::int64_t most) {
  std::int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most)
    return fail(Errc::invalid_argument,
                fmt::format("{} is \"{}\": a whole number from {} to {} is expected", what, text, least, most));
  return value;
}

Result<int> parse_times(const std::string& what, const std::optional<std::string>& text) {
  if (text == "always")
    return -1;
  if (const auto times = parse_integer(what, text.value_or("0"), 0, std::numeric_limits<std::int32_t>::max()))
    return static_cast<int>(*times);
  return fail(Errc::invalid_argument,
              fmt::format("{} is \"{}\": a whole number from 0 on is expected, or always", what, *text));
}

Result<Duration> parse_seconds(const std::string& what, const std::string& text) {
  GPUACTORS_LET(seconds, parse_number(what, text));
  if (!(seconds > 0 && seconds <= most_seconds))
    return fail(Errc::invalid_argument,
                fmt::format("{} is {}: more than 0 and at most {} seconds are expected", what, text, most_seconds));
  return std::chrono::ceil<Duration>(std::chrono::duration<double>(seconds));
}

Result<std::map<std::string, std::string>> parse_pairs(const std::string& what, const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> result;
  for (const auto& pair : pairs) {
    const auto sign = pair.find('=');
    if (sign == std::string::npos || sign == 0)
      return fail(Errc::invalid_argument, fmt::format("{} is \"{}\": NAME=VALUE is expected", what, pair));
    if (!result.emplace(pair.substr(0, sign), pair.substr(sign + 1)).second)
      return fail(Errc::invalid_argument, fmt::format("{} {} is given twice", what, pair.substr(0, sign)));
  }
  return result;
}

Result<std::map<std::string, double>> parse_quotas(const std::string& what, const std::vector<std::string>& pairs) {
  GPUACTORS_LET(texts, parse_pairs(what, pairs));
  std::map<std::string, double> result;
  for (const auto& [owner, text] : texts) {
    const auto name = fmt::format("{} {}", what, owner);
    GPUACTORS_LET(gpus, parse_number(name, text));
    GPUACTORS_TRY(Share::from_double(gpus, name));
    result[owner] = gpus;
  }
  return result;
}

Result<std::shared_ptr<std::istream>> open_document(const std::string& path) {
  if (path == "-") {
    if (isatty(STDIN_FILENO) != 0)
      std::cerr << "reading standard input; end it with Ctrl-D" << std::endl;
    return std::make_shared<StandardInputStream>();
  }
  errno = 0;
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  // Opening a folder succeeds; only reading it fails.
  if (file->is_open())
    file->peek();
  if (!file->is_open() || file->bad())
    return fail(Errc::invalid_argument,
                fmt::format("{} cannot be read: {}", path, errno != 0 ? std::strerror(errno) : "input error"));
  file->clear();
  return std::shared_ptr<std::istream>{std::move(file)};
}

Result<std::string> read_document(const std::string& path) {
  GPUACTORS_LET(in, open_document(path));
  std::ostringstream text;
  if (in->peek() != std::istream::traits_type::eof())
    text << in->rdbuf();
  if (in->bad())
    return fail(Errc::invalid_argument, fmt::format("{} cannot be read to its end", path));
  return text.str();
}

Result<Payload> read_message(const DescribedTypes& types, const std::string& message, const std::string& argument) {
  const auto from_file = argument == "-" || argument.starts_with("@");
  if (!from_file)
    return types.messages().from_json(message, argument);
  const auto path = argument == "-" ? argument : argument.substr(1);
  GPUACTORS_LET(text, read_document(path));
  auto payload = types.messages().from_json(message, text);
  if (!payload)
    return fail(payload.error().code(),
                fmt::format("{}: {}", path == "-" ? "standard input" : path, payload.error().message()));
  return payload;
}

} // namespace gpuactors::cli

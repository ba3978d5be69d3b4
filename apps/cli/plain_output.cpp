#include "plain_output.hpp"

#include <gpuactors/base/utf8.hpp>

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <mutex>

namespace gpuactors::cli {

namespace {

constexpr std::string_view reset = "\x1b[0m";

/// The sequence of colours and the like with which `text` begins; empty: there is none.
std::string_view colour_at(std::string_view text) {
  if (!text.starts_with("\x1b["))
    return {};
  const auto end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? text.substr(0, end + 1) : std::string_view{};
}

/// The length in bytes of the control character with which `text` begins; 0: it begins with another one.
std::size_t control_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if ((byte(0) < 0x20 && byte(0) != '\t') || byte(0) == 0x7f)
    return 1;
  return byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0; // U+0080 to U+009F
}

/// Appends a line to `result`, without its end.
void add_plain(std::string& result, std::string_view line) {
  bool coloured = false;
  while (!line.empty()) {
    if (const auto colour = colour_at(line); !colour.empty()) {
      result += colour;
      coloured = colour != reset && colour != "\x1b[m";
      line.remove_prefix(colour.size());
    } else if (const auto length = control_at(line); length > 0) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<unsigned char>(line[length - 1]));
      line.remove_prefix(length);
    } else {
      result += line.front();
      line.remove_prefix(1);
    }
  }
  if (coloured)
    result += reset;
}

/// Keeps what is written until its line is complete, or flushed.
class PlainBuffer : public std::streambuf {
public:
  explicit PlainBuffer(std::streambuf& to) : to_(to) {
    // nop
  }

protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof()))
      return traits_type::not_eof(c);
    const char letter = traits_type::to_char_type(c);
    return xsputn(&letter, 1) == 1 ? c : traits_type::eof();
  }

  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock{mutex_};
    const std::string_view more{text, static_cast<std::size_t>(size)};
    const auto end = more.rfind('\n');
    if (end == std::string_view::npos) {
      begun_ += more;
      return size;
    }
    begun_ += more.substr(0, end + 1);
    const bool written = write_begun();
    begun_ = more.substr(end + 1);
    return written ? size : 0;
  }

  int sync() override {
    const std::lock_guard lock{mutex_};
    return write_begun() && to_.pubsync() == 0 ? 0 : -1;
  }

private:
  bool write_begun() {
    const auto text = plain_text(begun_);
    begun_.clear();
    const auto size = static_cast<std::streamsize>(text.size());
    return to_.sputn(text.data(), size) == size;
  }

  std::streambuf& to_;
  std::mutex mutex_;
  std::string begun_;
};

} // namespace

std::string plain_text(std::string_view text) {
  const auto readable = to_utf8(text);
  std::string result;
  result.reserve(readable.size());
  for (std::string_view rest = readable; !rest.empty();) {
    const auto end = rest.find('\n');
    add_plain(result, rest.substr(0, end));
    if (end == std::string_view::npos)
      break;
    result += '\n';
    rest.remove_prefix(end + 1);
  }
  return result;
}

PlainOutput::PlainOutput() : before_(std::cout.rdbuf()), plain_(std::make_unique<PlainBuffer>(*before_)) {
  std::cout.rdbuf(plain_.get());
}

PlainOutput::~PlainOutput() {
  std::cout.flush();
  std::cout.rdbuf(before_);
}

} // namespace gpuactors::cli

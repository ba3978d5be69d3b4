#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/json_text.hpp>

#include <simdjson.h>

#include <algorithm>

namespace serve {

namespace {

constexpr bool needs_escape(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

void append_escape(std::string& json, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    json += {'\\', c};
  } else if (c == '\n') {
    json += "\\n";
  } else {
    const auto code = static_cast<unsigned char>(c);
    json += "\\u00";
    json += digits[code >> 4];
    json += digits[code & 15];
  }
}

} // namespace

void append_quoted(std::string& json, std::string_view text) {
  json += '"';
  append_escaped(json, text);
  json += '"';
}

void append_escaped(std::string& json, std::string_view text) {
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (needs_escape(text[i])) {
      json.append(text, plain, i - plain);
      append_escape(json, text[i]);
      plain = i + 1;
    }
  json.append(text, plain);
}

std::string event_text(std::string_view json) {
  return std::string{"data: "}.append(json).append("\n\n");
}

std::string error_document(std::string_view sentence) {
  auto readable = cut_text(sentence, longest_sentence);
  // What a client sent may be in it; a document is UTF-8 all the same.
  if (!simdjson::validate_utf8(readable.data(), readable.size()))
    std::replace_if(
        readable.begin(), readable.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  JsonText text;
  text.object().key("error").value(readable).close();
  return std::move(text).take();
}

} // namespace serve

// Writes JSON into a string, piece by piece and without whitespace.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace serve {

/// Appends `text` in quotes, escaped. Bytes that are no UTF-8 stay what they are.
void append_quoted(std::string& json, std::string_view text);

/// The same without the quotes.
void append_escaped(std::string& json, std::string_view text);

/// Appends the shortest text that reads as this number again; it must be finite.
template <class Number>
requires(std::integral<Number> || std::floating_point<Number>) void append_number(std::string& json, Number number) {
  char text[32];
  json.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

/// Sets commas where they belong. Keys and values alternate inside objects; `close` ends the innermost object or array.
class JsonText {
public:
  JsonText& object() {
    return open('{');
  }

  JsonText& array() {
    return open('[');
  }

  JsonText& close() {
    text_ += closers_.back();
    closers_.pop_back();
    comma_ = true;
    return *this;
  }

  JsonText& key(std::string_view name) {
    separate();
    append_quoted(text_, name);
    text_ += ':';
    comma_ = false;
    return *this;
  }

  JsonText& value(std::string_view text) {
    separate();
    append_quoted(text_, text);
    return *this;
  }

  JsonText& value(const char* text) {
    return value(std::string_view{text});
  }

  JsonText& value(std::same_as<bool> auto flag) {
    separate();
    text_ += flag ? "true" : "false";
    return *this;
  }

  template <class Number>
  requires((std::integral<Number> && !std::same_as<Number, bool>) || std::floating_point<Number>) JsonText& value(
      Number number) {
    separate();
    append_number(text_, number);
    return *this;
  }

  /// What others appended is a value too.
  template <class Append>
  JsonText& value_by(Append append) {
    separate();
    append(text_);
    return *this;
  }

  [[nodiscard]] std::string take() && {
    return std::move(text_);
  }

private:
  JsonText& open(char bracket) {
    separate();
    text_ += bracket;
    closers_ += bracket == '{' ? '}' : ']';
    comma_ = false;
    return *this;
  }

  void separate() {
    if (comma_)
      text_ += ',';
    comma_ = true;
  }

  std::string text_;
  std::string closers_;
  bool comma_ = false;
};

/// The server-sent event of a document.
[[nodiscard]] std::string event_text(std::string_view json);

/// {"error": sentence}
[[nodiscard]] std::string error_document(std::string_view sentence);

} // namespace serve

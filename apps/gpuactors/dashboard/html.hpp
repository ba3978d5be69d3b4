// Html: the one place where text becomes a part of a page. There is no way to write that does not escape.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace gpuactors::cli::dashboard {

/// Returns at most about so many bytes of `text`, with "…" in place of what was left out, and not half a character.
[[nodiscard]] std::string clipped(std::string_view text, std::size_t most_bytes);

/// A piece of a page in the making.
///
/// Names of elements and attributes stand in the source. Everything else is text: it is made valid UTF-8, cut to a
/// bound and escaped, so names and reasons that users chose stay what they are: text. Elements are closed by the end of
/// a scope. Movable and copyable; one thread at a time.
class Html {
public:
  /// A name of an element or attribute, known when the program is compiled. Those that the page's own
  /// Content-Security-Policy forbids do not compile: styles and handlers of events in the middle of the page.
  class Name {
  public:
    // NOLINTNEXTLINE(google-explicit-constructor): a literal is a name
    consteval Name(const char* text) : text_(text) {
      if (text_ == "style" || text_.substr(0, 2) == "on")
        throw "a style or a handler in the middle of the page";
    }

    [[nodiscard]] constexpr std::string_view text() const noexcept {
      return text_;
    }

  private:
    std::string_view text_;
  };

  struct Attribute {
    Name name;
    std::string value;
  };

  using Attributes = std::initializer_list<Attribute>;

  /// An element that is open until the end of this object. The piece must be where it was then: functions that return
  /// one close all elements first.
  class Element {
  public:
    Element(Html& html, Name name, Attributes attributes);
    ~Element();
    Element(const Element&) = delete;
    Element& operator=(const Element&) = delete;

  private:
    Html& html_;
    Name name_;
  };

  /// The longest text and the longest value of an attribute, in bytes.
  static constexpr std::size_t longest_text = 400;
  static constexpr std::size_t longest_value = 4'096;

  /// Writes what says that this is a page of HTML.
  void begin_page();

  /// Opens an element, until the end of what is returned.
  [[nodiscard]] Element element(Name name, Attributes attributes = {});

  /// Writes an element with nothing but text in it.
  void leaf(Name name, Attributes attributes, std::string_view content);

  /// Writes an element with nothing in it.
  void empty(Name name, Attributes attributes);

  void text(std::string_view content);

  /// Writes text that is of no use if it is cut: what the program itself was given, and no user of the cluster chose.
  void whole_text(std::string_view content);

  /// Writes another piece, which is escaped already.
  void add(const Html& piece);

  [[nodiscard]] const std::string& str() const noexcept {
    return text_;
  }

private:
  void begin(Name name, Attributes attributes, std::string_view end);

  std::string text_;
};

} // namespace gpuactors::cli::dashboard

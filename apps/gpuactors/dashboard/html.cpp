#include "html.hpp"

#include <gpuactors/base/utf8.hpp>

#include <apps/draw/svg.hpp>

#include <algorithm>
#include <array>

namespace gpuactors::cli::dashboard {

namespace {

/// Elements that are on lines of their own anyway.
constexpr std::array<std::string_view, 8> on_lines{"article", "div", "figure", "head", "header", "li", "p", "tr"};

/// Text as it may stand in a page, in an attribute too.
std::string escaped(std::string_view text, std::size_t most_bytes) {
  return draw::escape(to_utf8(clipped(text, most_bytes)));
}

} // namespace

std::string clipped(std::string_view text, std::size_t most_bytes) {
  return text.size() <= most_bytes ? std::string{text} : std::string{head_of(text, most_bytes)} + "…";
}

Html::Element::Element(Html& html, Name name, Attributes attributes) : html_(html), name_(name) {
  html_.begin(name, attributes, ">");
}

Html::Element::~Element() {
  html_.text_ += "</";
  html_.text_ += name_.text();
  html_.text_ += '>';
  // For those who read the source. After others, a new line would be a blank in the text.
  if (std::find(on_lines.begin(), on_lines.end(), name_.text()) != on_lines.end())
    html_.text_ += '\n';
}

void Html::begin_page() {
  text_ += "<!DOCTYPE html>\n";
}

Html::Element Html::element(Name name, Attributes attributes) {
  return {*this, name, attributes};
}

void Html::leaf(Name name, Attributes attributes, std::string_view content) {
  const Element element{*this, name, attributes};
  text(content);
}

void Html::empty(Name name, Attributes attributes) {
  begin(name, attributes, "/>");
}

void Html::text(std::string_view content) {
  text_ += escaped(content, longest_text);
}

void Html::whole_text(std::string_view content) {
  text_ += escaped(content, content.size());
}

void Html::add(const Html& piece) {
  text_ += piece.text_;
}

void Html::begin(Name name, Attributes attributes, std::string_view end) {
  text_ += '<';
  text_ += name.text();
  for (const auto& [key, value] : attributes) {
    text_ += ' ';
    text_ += key.text();
    text_ += "=\"";
    text_ += escaped(value, longest_value);
    text_ += '"';
  }
  text_ += end;
}

} // namespace gpuactors::cli::dashboard

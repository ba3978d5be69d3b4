#include "svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace draw {

namespace {

constexpr std::string_view light_page = R"(  svg { font: 12px system-ui, "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .soft { fill: #57606a; } .grid { stroke: #d5d9de; }
)";
constexpr std::string_view dark_page =
    R"(    .page { fill: #0d1117; } .text { fill: #e6edf3; } .soft { fill: #9aa4af; } .grid { stroke: #30363d; }
)";

std::string_view to_string(Picture::Anchor anchor) {
  constexpr std::array<std::string_view, 3> names{"start", "middle", "end"};
  return names[static_cast<std::size_t>(anchor)];
}

/// A shape ends with its hint, if it has one.
std::string closing(std::string_view shape, std::string_view hint) {
  return hint.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escape(hint), shape);
}

} // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text)
    switch (c) {
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '&':
      result += "&amp;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      // XML has no way to write the other control characters.
      if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
        result += c;
    }
  return result;
}

double tick_of(double range) {
  const auto rough = range / 5;
  const auto power = std::pow(10, std::floor(std::log10(rough)));
  for (const auto factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough)
      return factor * power;
  return 10 * power;
}

// -- Picture --------------------------------------------------------------------------------------

Picture::Picture(double width, double height, double left, std::string_view title, std::string_view light,
                 std::string_view dark)
  : body_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                      "height=\"{1}\">\n<style>\n{2}{3}  @media (prefers-color-scheme: dark) {{\n{4}{5}  }}\n</style>\n"
                      "<rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n"
                      "<text class=\"text\" x=\"{6}\" y=\"26\" font-size=\"15\">{7}</text>\n",
                      width, height, light_page, light, dark_page, dark, left, escape(title))) {
  // nop
}

void Picture::text(Point at, std::string_view kind, Anchor anchor, std::string_view content) {
  body_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", kind, at.x, at.y,
                       to_string(anchor), escape(content));
}

void Picture::line(Point from, Point to, std::string_view kind) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, from.x,
                       from.y, to.x, to.y);
}

void Picture::bar(Point corner, double width, double height, std::string_view kind, std::string_view hint) {
  body_ += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", kind,
                       corner.x, corner.y, std::max(0.0, width), height)
           + closing("rect", hint);
}

void Picture::dot(Point centre, double radius, std::string_view kind, std::string_view hint) {
  body_ += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"", kind, centre.x, centre.y, radius)
           + closing("circle", hint);
}

void Picture::curve(const std::vector<Point>& points, std::string_view kind) {
  std::string path;
  for (const auto& point : points)
    path += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  body_ += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", kind, path);
}

std::string Picture::finish() const {
  return body_ + "</svg>\n";
}

// -- LogAxis --------------------------------------------------------------------------------------

double LogAxis::at(double number) const {
  const auto place = std::log(std::clamp(number, from, to) / from) / std::log(to / from);
  return begin + (end - begin) * place;
}

std::vector<double> LogAxis::ticks() const {
  const auto decades = std::lround(std::log10(to / from));
  const auto each = std::max(1L, (decades + 9) / 10);
  std::vector<double> result;
  for (long i = 0; i <= decades; i += each)
    result.push_back(from * std::pow(10, i));
  return result;
}

LogAxis log_axis(const std::vector<double>& numbers, double begin, double end) {
  double least = 0;
  double most = 0;
  for (const auto number : numbers)
    if (number > 0 && std::isfinite(number)) {
      least = least == 0 ? number : std::min(least, number);
      most = std::max(most, number);
    }
  if (least == 0)
    return {1, 100, begin, end};
  // A number that is a power of ten itself, but for rounding, needs no further decade.
  constexpr double rounding = 1e-9;
  const auto from = std::floor(std::log10(least) + rounding);
  const auto to = std::max(from + 2, std::ceil(std::log10(most) - rounding));
  return {std::pow(10, from), std::pow(10, to), begin, end};
}

std::string short_number(double number) {
  for (const auto& [unit, name] : {std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "k"}})
    if (number >= unit)
      return fmt::format("{:.3g}{}", number / unit, name);
  return fmt::format("{:.3g}", number);
}

} // namespace draw

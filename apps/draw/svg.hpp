// Pictures in SVG: text, lines, bars and curves on one page that is readable light and dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace draw {

/// Text as it may stand in XML, in an attribute too. Pure.
[[nodiscard]] std::string escape(std::string_view text);

/// A round number (1, 2 or 5 times a power of ten), about `range` / 5. `range` is above 0. Pure.
[[nodiscard]] double tick_of(double range);

/// A picture in the making: units are pixels, from the upper left corner. Every part has a class of the page's style,
/// which knows `text`, `soft` (lesser text), `grid` (lines) and what the program adds.
class Picture {
public:
  enum class Anchor { start, middle, end };

  struct Point {
    double x = 0;
    double y = 0;
  };

  /// With the title `left` pixels from the left; `light` and `dark` are rules for classes of the program's own.
  Picture(double width, double height, double left, std::string_view title, std::string_view light,
          std::string_view dark);

  void text(Point at, std::string_view kind, Anchor anchor, std::string_view content);
  void line(Point from, Point to, std::string_view kind);
  /// What a reader sees who stays over it with the mouse is `hint`; empty for nothing.
  void bar(Point corner, double width, double height, std::string_view kind, std::string_view hint);
  void dot(Point centre, double radius, std::string_view kind, std::string_view hint);
  void curve(const std::vector<Point>& points, std::string_view kind);

  /// All of it as SVG.
  [[nodiscard]] std::string finish() const;

private:
  std::string body_;
};

/// A logarithmic axis: which place on the page a number above 0 has.
struct LogAxis {
  /// The numbers at its two ends, and where these are.
  double from = 1;
  double to = 10;
  double begin = 0;
  double end = 1;

  /// Numbers beyond the ends lie on them.
  [[nodiscard]] double at(double number) const;

  /// Its powers of ten, not more than about ten of them.
  [[nodiscard]] std::vector<double> ticks() const;
};

/// An axis from power of ten to power of ten with all these numbers on it (those above 0), and two decades at least.
[[nodiscard]] LogAxis log_axis(const std::vector<double>& numbers, double begin, double end);

/// A number for a label: 0.1, 20, 3k, 4M. Pure.
[[nodiscard]] std::string short_number(double number);

} // namespace draw

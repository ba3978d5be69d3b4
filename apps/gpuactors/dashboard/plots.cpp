// Curves over the last fifteen minutes, as SVG.
#include "sections.hpp"
#include "table.hpp"

#include <apps/draw/svg.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace gpuactors::cli::dashboard {

namespace {

/// What a curve shows of a slot; nothing where it has no value.
using Value = std::function<std::optional<double>(const Sample&)>;

struct Curve {
  std::string title;
  std::string unit;
  Value value;
  /// The least number at the top of the axis.
  double least_top;
};

// The picture's measures, in its own units.
struct Frame {
  static constexpr double width = 360;
  static constexpr double height = 96;
  static constexpr double left = 40;
  static constexpr double top = 8;
  static constexpr double bottom = 78;
};

/// A gap in a curve: so many slots without a state.
constexpr std::int64_t gap = 4;

struct Point {
  std::int64_t slot;
  double value;
};

std::vector<Point> points_of(const History& history, const Value& value) {
  std::vector<Point> points;
  for (const auto& slot : history.all())
    if (const auto number = value(slot.sample))
      points.push_back({slot.number, *number});
  return points;
}

/// Where a curve lies: which number is at the top, and which slot at the right.
struct Axes {
  double most;
  std::int64_t last_slot;

  [[nodiscard]] std::string at(const Point& point) const {
    constexpr auto slots = static_cast<double>(History::slots);
    const auto age = static_cast<double>(last_slot - point.slot);
    return fmt::format("{:.1f},{:.1f} ", Frame::width - 2 - age * (Frame::width - 2 - Frame::left) / slots,
                       Frame::bottom - point.value / most * (Frame::bottom - Frame::top));
  }
};

void write_axes(Html& html, const Axes& axes) {
  for (const double part : {0.0, 0.5, 1.0}) {
    const auto y = fmt::format("{:.1f}", Frame::bottom - part * (Frame::bottom - Frame::top));
    html.empty("line", {{"class", "grid"},
                        {"x1", fmt::format("{}", Frame::left)},
                        {"x2", fmt::format("{}", Frame::width)},
                        {"y1", y},
                        {"y2", y}});
    html.leaf(
        "text",
        {{"class", "soft"}, {"x", fmt::format("{}", Frame::left - 4)}, {"y", y}, {"dy", "4"}, {"text-anchor", "end"}},
        draw::short_number(axes.most * part));
  }
  const auto below = fmt::format("{}", Frame::height - 4);
  html.leaf("text", {{"class", "soft"}, {"x", fmt::format("{}", Frame::left)}, {"y", below}}, "15 min ago");
  html.leaf("text", {{"class", "soft"}, {"x", fmt::format("{}", Frame::width)}, {"y", below}, {"text-anchor", "end"}},
            "now");
}

void write_curve(Html& html, const Curve& curve, const Scene& scene) {
  const auto points = points_of(scene.watch.history(), curve.value);
  double most = 0;
  for (const auto& point : points)
    most = std::max(most, point.value);
  // A round number at the top, whose half is round too.
  const auto range = std::max(most, curve.least_top);
  const auto step = 2 * draw::tick_of(range / 2);
  const Axes axes{curve.least_top < range ? std::ceil(range / step) * step : range,
                  History::number_of(scene.now.steady)};
  const auto words = points.empty() ? std::string{"not known yet"}
                                    : fmt::format("now {}{}, at most {}{}", draw::short_number(points.back().value),
                                                  curve.unit, draw::short_number(most), curve.unit);
  const auto figure = html.element("figure");
  {
    const auto caption = html.element("figcaption");
    html.leaf("strong", {}, curve.title);
    html.text(": " + words);
  }
  const auto picture = html.element("svg", {{"class", "plot"},
                                            {"viewBox", fmt::format("0 0 {} {}", Frame::width, Frame::height)},
                                            {"role", "img"},
                                            {"aria-label", fmt::format("{} over 15 minutes: {}", curve.title, words)}});
  write_axes(html, axes);
  for (std::size_t i = 0; i < points.size();) {
    std::string run;
    do
      run += axes.at(points[i++]);
    while (i < points.size() && points[i].slot - points[i - 1].slot <= gap);
    html.empty("polyline", {{"class", "curve"}, {"points", run}});
  }
}

std::optional<double> per_second(double count, const Sample& sample) {
  return sample.seconds > 0 ? std::optional{count / sample.seconds} : std::nullopt;
}

} // namespace

void write_plots(Html& html, const Scene& scene) {
  const std::vector<Curve> curves{
      {"Granted share", " %", [](const Sample& sample) { return sample.granted_percent; }, 100},
      {"Waiting requests", "", [](const Sample& sample) { return std::optional{sample.waiting}; }, 4},
      {"Calls and tasks", "/s", [](const Sample& sample) { return per_second(sample.calls, sample); }, 1},
      {"Failures of these", "/s", [](const Sample& sample) { return per_second(sample.failed, sample); }, 1}};
  write_section(html, {"history", "Last 15 minutes", "", "metrics"}, scene.connection, [&] {
    const auto grid = html.element("div", {{"class", "plots"}});
    for (const auto& curve : curves)
      write_curve(html, curve, scene);
  });
}

} // namespace gpuactors::cli::dashboard

#include "growth.hpp"

#include "growth_curves.hpp"

#include <apps/draw/svg.hpp>
#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>

namespace gpuactors::bench {

namespace {

using draw::Picture;

constexpr double chart_width = 800;
constexpr double chart_height = 440;
constexpr double chart_left = 78;
constexpr double chart_right = 24;
constexpr double chart_top = 70;
constexpr double chart_bottom = 52;
constexpr std::size_t colours = 4;

constexpr std::string_view chart_light = R"(  .c0, .c1, .c2, .c3 { fill: none; stroke-width: 2; }
  .c0 { stroke: #1d6fa5; } .c1 { stroke: #c2410c; } .c2 { stroke: #4d7c3a; } .c3 { stroke: #8250c4; }
  .d0 { fill: #1d6fa5; } .d1 { fill: #c2410c; } .d2 { fill: #4d7c3a; } .d3 { fill: #8250c4; }
)";
constexpr std::string_view chart_dark =
    R"(    .c0 { stroke: #8ecae6; } .c1 { stroke: #fb923c; } .c2 { stroke: #90be6d; } .c3 { stroke: #c8b6ff; }
    .d0 { fill: #8ecae6; } .d1 { fill: #fb923c; } .d2 { fill: #90be6d; } .d3 { fill: #c8b6ff; }
)";

void draw_axes(Picture& picture, const Growth& growth, const draw::LogAxis& x, const draw::LogAxis& y) {
  using Anchor = Picture::Anchor;
  for (const auto tick : y.ticks()) {
    picture.line({x.begin, y.at(tick)}, {x.end, y.at(tick)}, "grid");
    picture.text({x.begin - 8, y.at(tick) + 4}, "soft", Anchor::end, draw::short_number(tick));
  }
  for (const auto tick : x.ticks()) {
    picture.line({x.at(tick), y.begin}, {x.at(tick), y.end}, "grid");
    picture.text({x.at(tick), y.begin + 18}, "soft", Anchor::middle, draw::short_number(tick));
  }
  picture.text({(x.begin + x.end) / 2, y.begin + 38}, "soft", Anchor::middle, growth.size_label);
  picture.text({16, chart_top - 24}, "soft", Anchor::start, growth.unit);
}

void draw_series(Picture& picture, const Growth& growth, std::size_t number, const draw::LogAxis& x,
                 const draw::LogAxis& y) {
  const auto& series = growth.series[number];
  const auto colour = number % colours;
  const auto legend =
      x.begin + static_cast<double>(number) * (x.end - x.begin) / static_cast<double>(growth.series.size());
  picture.line({legend, chart_top - 14}, {legend + 16, chart_top - 14}, fmt::format("c{}", colour));
  picture.text({legend + 20, chart_top - 10}, "soft", Picture::Anchor::start, series.name);
  std::vector<Picture::Point> points;
  for (const auto& [size, cost] : series.points)
    points.push_back({x.at(size), y.at(cost)});
  picture.curve(points, fmt::format("c{}", colour));
  for (std::size_t i = 0; i < points.size(); ++i)
    picture.dot(points[i], 3, fmt::format("d{}", colour),
                fmt::format("{}: {:.6g}, {:.4g}", series.name, series.points[i].size, series.points[i].cost));
}

Result<void> write(const std::filesystem::path& path, const std::string& text) {
  return nn::replace_file(path, {std::as_bytes(std::span{text})});
}

} // namespace

std::string to_csv(const Growth& growth) {
  auto text = fmt::format("{},series,{}\n", growth.size_label, growth.unit);
  for (const auto& series : growth.series)
    for (const auto& [size, cost] : series.points)
      text += fmt::format("{:.0f},\"{}\",{:.6g}\n", size, series.name, cost);
  return text;
}

std::string to_svg(const Growth& growth) {
  std::vector<double> sizes;
  std::vector<double> costs;
  for (const auto& series : growth.series)
    for (const auto& [size, cost] : series.points) {
      sizes.push_back(size);
      costs.push_back(cost);
    }
  const auto x = draw::log_axis(sizes, chart_left, chart_width - chart_right);
  const auto y = draw::log_axis(costs, chart_height - chart_bottom, chart_top);
  Picture picture{chart_width, chart_height, 16, growth.title, chart_light, chart_dark};
  draw_axes(picture, growth, x, y);
  for (std::size_t i = 0; i < growth.series.size(); ++i)
    draw_series(picture, growth, i, x, y);
  return picture.finish();
}

Result<void> measure_growth(const GrowthRun& run) {
  std::error_code error;
  std::filesystem::create_directories(run.folder, error);
  if (error)
    return fail(Errc::unavailable, fmt::format("{} cannot be made: {}", run.folder.string(), error.message()));
  bool found = false;
  std::string names;
  for (const auto& [name, measure] : growth_curves()) {
    names += (names.empty() ? "" : ", ") + name;
    if (name.find(run.filter) == std::string::npos)
      continue;
    found = true;
    const auto growth = measure(run.quick);
    GPUACTORS_TRY(write(run.folder / (name + ".csv"), to_csv(growth)));
    GPUACTORS_TRY(write(run.folder / (name + ".svg"), to_svg(growth)));
    for (const auto& series : growth.series)
      if (!series.points.empty())
        fmt::print("{:<10} {:<34} {:>12.4g} {} at {:.0f}, {:.4g} at {:.0f}\n", name, series.name,
                   series.points.front().cost, growth.unit, series.points.front().size, series.points.back().cost,
                   series.points.back().size);
    std::fflush(stdout);
  }
  if (!found)
    return fail(Errc::not_found, fmt::format("no curve has a name with \"{}\" in it; there are {}", run.filter, names));
  return {};
}

} // namespace gpuactors::bench

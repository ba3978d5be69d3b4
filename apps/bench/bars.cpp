#include "bars.hpp"

#include <apps/draw/svg.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace gpuactors::bench {

namespace {

using draw::Picture;
using Anchor = Picture::Anchor;

constexpr double page_width = 1000;
constexpr double bar_top = 84;
constexpr double bar_height = 9;
constexpr double bar_gap = 2;
constexpr double row_gap = 9;
constexpr double bar_right = 90;
constexpr double letter = 6.6; // of a label, on average

constexpr std::string_view bar_light =
    R"(  .floor { fill: #8ecae6; } .target { fill: #f2cc8f; } .smaller { fill: #c8b6ff; } .peer { fill: #90be6d; }
  .missed { stroke: #c2410c; stroke-width: 2; }
  .one { stroke: #1f2328; stroke-width: 1.2; } .bound { stroke: #c2410c; stroke-width: 2.4; }
  .small { fill: #57606a; font-size: 10px; }
)";
constexpr std::string_view bar_dark =
    R"(    .floor { fill: #31708f; } .target { fill: #8a6d3b; } .smaller { fill: #6d5aa8; } .peer { fill: #4d7c3a; }
    .missed { stroke: #fb923c; } .one { stroke: #e6edf3; } .bound { stroke: #fb923c; } .small { fill: #9aa4af; }
)";

/// One bar: how many times as fast, and how fast it has to be; 0 without a bound.
struct Bar {
  std::string_view kind;
  double speed = 0;
  double bound = 0;
  bool keeps = true;
  std::string hint;
};

double speed_of(const Row& row, double ratio) {
  return ratio == 0 || !row.at_most ? ratio : 1 / ratio;
}

/// What a bar of that kind stands beside, for the legend and for hints.
std::string_view words_for(FloorKind kind) {
  constexpr std::array<std::string_view, 3> words{"the floor under it", "what is wanted", "our own with less to do"};
  return words[static_cast<std::size_t>(kind)];
}

std::vector<Bar> bars_of(const Row& row) {
  std::vector<Bar> bars;
  if (row.ratio != 0)
    bars.push_back({to_string(row.floor_kind), speed_of(row, row.ratio), speed_of(row, row.bound),
                    row.keeps(row.ratio, row.bound),
                    fmt::format("{:.4g} {}, {} {:.4g}: ratio {:.3g}", row.value, row.unit, words_for(row.floor_kind),
                                row.floor, row.ratio)});
  if (row.peer != 0)
    bars.push_back({"peer", speed_of(row, row.peer_ratio()), speed_of(row, row.peer_bound),
                    row.keeps(row.peer_ratio(), row.peer_bound),
                    fmt::format("{:.4g} {}, {} {:.4g}: ratio {:.3g}", row.value, row.unit, row.peer_by, row.peer,
                                row.peer_ratio())});
  return bars;
}

std::string label_of(const Row& row) {
  return row.mode.empty() ? row.name : row.name + ", " + row.mode;
}

/// One entry for each kind of bar that there is.
void draw_legend(Picture& picture, double left, const Report& report) {
  picture.text({left, 44}, "soft", Anchor::start,
               "How many times as fast as what stands beside it. The line is 1, orange marks are bounds.");
  const auto entry = [&](std::string_view kind, const std::string& words) {
    picture.bar({left, 54}, 14, bar_height, kind, "");
    picture.text({left + 20, 63}, "soft", Anchor::start, "beside " + words);
    left += 20 + letter * static_cast<double>(words.size() + 10);
  };
  for (const auto kind : {FloorKind::floor, FloorKind::target, FloorKind::smaller})
    if (std::any_of(report.rows.begin(), report.rows.end(),
                    [&](const Row& row) { return row.ratio != 0 && row.floor_kind == kind; }))
      entry(to_string(kind), std::string{words_for(kind)});
  if (!report.peer.empty())
    entry("peer", report.peer);
}

void draw_bar(Picture& picture, const draw::LogAxis& axis, const Bar& bar, double y) {
  const auto one = axis.at(1);
  const auto end = axis.at(bar.speed);
  const auto kind = fmt::format("{}{}", bar.kind, bar.keeps ? "" : " missed");
  picture.bar({std::min(one, end), y}, std::abs(end - one), bar_height, kind, bar.hint);
  if (bar.bound != 0)
    picture.line({axis.at(bar.bound), y - 1}, {axis.at(bar.bound), y + bar_height + 1}, "bound");
  picture.text({std::max({one, end, bar.bound != 0 ? axis.at(bar.bound) : 0}) + 5, y + bar_height - 1}, "small",
               Anchor::start, fmt::format("{:.3g}x{}", bar.speed, bar.keeps ? "" : " missed"));
}

} // namespace

std::string bars_svg(const Report& report) {
  std::vector<std::pair<std::string, std::vector<Bar>>> rows;
  std::vector<double> numbers{1};
  std::size_t longest = 10;
  double height = bar_top + row_gap;
  for (const auto& row : report.rows) {
    auto bars = bars_of(row);
    if (bars.empty())
      continue;
    for (const auto& bar : bars) {
      numbers.push_back(bar.speed);
      numbers.push_back(bar.bound);
    }
    height += static_cast<double>(bars.size()) * (bar_height + bar_gap) + row_gap;
    longest = std::max(longest, label_of(row).size());
    rows.emplace_back(label_of(row), std::move(bars));
  }
  const auto left = std::min(400.0, letter * static_cast<double>(longest) + 24);
  const auto axis = draw::log_axis(numbers, left, page_width - bar_right);
  Picture picture{page_width, height + 34, 16, "gpuactors beside its floors, targets and peers", bar_light, bar_dark};
  draw_legend(picture, 16, report);
  for (const auto tick : axis.ticks()) {
    picture.line({axis.at(tick), bar_top}, {axis.at(tick), height}, "grid");
    picture.text({axis.at(tick), height + 16}, "soft", Anchor::middle, fmt::format("{:g}x", tick));
  }
  double y = bar_top + row_gap;
  for (const auto& [label, bars] : rows) {
    const auto middle = y + (static_cast<double>(bars.size()) * (bar_height + bar_gap) - bar_gap) / 2;
    picture.text({left - 8, middle + 4}, "text", Anchor::end, label);
    for (const auto& bar : bars) {
      draw_bar(picture, axis, bar, y);
      y += bar_height + bar_gap;
    }
    y += row_gap;
  }
  picture.line({axis.at(1), bar_top}, {axis.at(1), height}, "one");
  return picture.finish();
}

} // namespace gpuactors::bench

#include "curve.hpp"

#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace train {

namespace {

constexpr double width = 800;
constexpr double height = 420;
constexpr double left = 70;
constexpr double right = 20;
constexpr double top = 44;
constexpr double bottom = 46;
/// More points than pixels show nothing more.
constexpr std::size_t most_points = 1600;

constexpr std::string_view style = R"(<style>
  svg { font: 12px system-ui, "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2328; } .soft { fill: #57606a; } .grid { stroke: #d5d9de; }
  .steps { fill: none; stroke: #8ecae6; stroke-width: 1; } .epochs { fill: none; stroke: #c2410c; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #e6edf3; } .soft { fill: #9aa4af; } .grid { stroke: #30363d; }
    .steps { stroke: #31708f; } .epochs { stroke: #fb923c; }
  }
</style>
)";

struct Point {
  double step;
  double loss;
};

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

/// Means of neighbours, so that at most `most` points are left; what is no number is left out.
std::vector<Point> thin(const Curve& curve, std::size_t each) {
  std::vector<Point> points;
  for (std::size_t at = 0; at < curve.losses.size(); at += each) {
    const auto end = std::min(at + each, curve.losses.size());
    double sum = 0;
    for (auto i = at; i < end; ++i)
      sum += curve.losses[i];
    const auto mean = sum / static_cast<double>(end - at);
    if (std::isfinite(mean))
      points.push_back({static_cast<double>(curve.first_step) + static_cast<double>(at + end + 1) / 2, mean});
  }
  return points;
}

/// A round number, about `range` / 5.
double tick_of(double range) {
  const auto rough = range / 5;
  const auto power = std::pow(10, std::floor(std::log10(rough)));
  for (const auto factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough)
      return factor * power;
  return 10 * power;
}

/// From steps and losses to the picture.
struct Frame {
  double first;
  double last;
  double most;

  [[nodiscard]] double x(double step) const {
    return left + (width - left - right) * (step - first) / (last - first);
  }

  [[nodiscard]] double y(double loss) const {
    return top + (height - top - bottom) * (1 - loss / most);
  }
};

std::string draw(const std::vector<Point>& points, const Frame& frame, std::string_view kind) {
  std::string path;
  for (const auto& point : points)
    path += fmt::format("{:.1f},{:.1f} ", frame.x(point.step), frame.y(point.loss));
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", kind, path);
}

std::string draw_axes(const Frame& frame, const Curve& curve) {
  std::string text;
  const auto tick = tick_of(frame.most);
  for (double loss = 0; loss <= frame.most * 1.0001; loss += tick)
    text += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
                        "<text class=\"soft\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
                        left, width - right, frame.y(loss), left - 8, frame.y(loss) + 4, loss);
  const auto each = static_cast<double>(curve.steps_per_epoch);
  const auto epochs = std::max(1.0, std::ceil(tick_of((frame.last - frame.first) / each)));
  const auto begin = std::ceil(frame.first / each / epochs) * epochs;
  for (auto epoch = begin; epoch * each <= frame.last; epoch += epochs)
    text += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                        frame.x(epoch * each), height - bottom + 20, epoch);
  return text
         + fmt::format("<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">epoch</text>\n",
                       (left + width - right) / 2, height - 8);
}

} // namespace

std::string to_csv(const Curve& curve) {
  std::string text = "step,epoch,loss\n";
  for (std::size_t i = 0; i < curve.losses.size(); ++i) {
    const auto step = curve.first_step + i;
    if (std::isnan(curve.losses[i])) // not told
      continue;
    text += fmt::format("{},{},{}\n", step + 1, step / curve.steps_per_epoch + 1, curve.losses[i]);
  }
  return text;
}

std::string to_svg(const Curve& curve, const std::string& title) {
  const auto each = std::max<std::size_t>(1, (curve.losses.size() + most_points - 1) / most_points);
  const auto steps = thin(curve, each);
  const auto epochs = thin(curve, static_cast<std::size_t>(curve.steps_per_epoch));
  double most = 0;
  for (const auto& point : steps)
    most = std::max(most, point.loss);
  const auto first = static_cast<double>(curve.first_step);
  const Frame frame{first, first + static_cast<double>(std::max<std::size_t>(curve.losses.size(), 1)),
                    most > 0 ? most : 1};
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
                     "{2}<rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n"
                     "<text class=\"text\" x=\"{3}\" y=\"26\" font-size=\"15\">{4}</text>\n",
                     width, height, style, left, escape(title))
         + draw_axes(frame, curve) + draw(steps, frame, "steps") + draw(epochs, frame, "epochs") + "</svg>\n";
}

gpuactors::Result<void> write_text(const std::filesystem::path& path, const std::string& text) {
  return nn::replace_file(path, {std::as_bytes(std::span{text})});
}

} // namespace train

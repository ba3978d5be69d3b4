#include "curve.hpp"

#include <apps/draw/svg.hpp>
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

constexpr std::string_view light = R"(  .steps { fill: none; stroke: #8ecae6; stroke-width: 1; }
  .epochs { fill: none; stroke: #c2410c; stroke-width: 2; }
)";
constexpr std::string_view dark = R"(    .steps { stroke: #31708f; } .epochs { stroke: #fb923c; }
)";

struct LossPoint {
  double step;
  double loss;
};

/// Means of neighbours, so that at most `most` points are left; what is no number is left out.
std::vector<LossPoint> thin(const Curve& curve, std::size_t each) {
  std::vector<LossPoint> points;
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

void draw_points(draw::Picture& picture, const std::vector<LossPoint>& points, const Frame& frame,
                 std::string_view kind) {
  std::vector<draw::Picture::Point> places;
  for (const auto& point : points)
    places.push_back({frame.x(point.step), frame.y(point.loss)});
  picture.curve(places, kind);
}

void draw_axes(draw::Picture& picture, const Frame& frame, const Curve& curve) {
  using Anchor = draw::Picture::Anchor;
  const auto tick = draw::tick_of(frame.most);
  for (double loss = 0; loss <= frame.most * 1.0001; loss += tick) {
    picture.line({left, frame.y(loss)}, {width - right, frame.y(loss)}, "grid");
    picture.text({left - 8, frame.y(loss) + 4}, "soft", Anchor::end, fmt::format("{:.4g}", loss));
  }
  const auto each = static_cast<double>(curve.steps_per_epoch);
  const auto epochs = std::max(1.0, std::ceil(draw::tick_of((frame.last - frame.first) / each)));
  const auto begin = std::ceil(frame.first / each / epochs) * epochs;
  for (auto epoch = begin; epoch * each <= frame.last; epoch += epochs)
    picture.text({frame.x(epoch * each), height - bottom + 20}, "soft", Anchor::middle, fmt::format("{}", epoch));
  picture.text({(left + width - right) / 2, height - 8}, "soft", Anchor::middle, "epoch");
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
  draw::Picture picture{width, height, left, title, light, dark};
  draw_axes(picture, frame, curve);
  draw_points(picture, steps, frame, "steps");
  draw_points(picture, epochs, frame, "epochs");
  return picture.finish();
}

gpuactors::Result<void> write_text(const std::filesystem::path& path, const std::string& text) {
  return nn::replace_file(path, {std::as_bytes(std::span{text})});
}

} // namespace train

#include "curve.hpp"

#include <apps/draw/svg.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr std::string_view head = "step,epoch,loss\n";
/// Of a line that is quoted in an error.
constexpr std::size_t most_quoted = 60;

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

/// A corner of a line: the middle of some steps, and their mean loss.
struct Corner {
  double step;
  double loss;
};

/// The mean of each run of points that `same` finds alike; what is no number is left out.
template <class Same>
std::vector<Corner> means(const Curve& curve, const Same& same) {
  std::vector<Corner> corners;
  for (std::size_t begin = 0; begin < curve.size();) {
    auto end = begin;
    double sum = 0;
    for (; end < curve.size() && same(begin, end); ++end)
      sum += curve[end].loss;
    const auto mean = sum / static_cast<double>(end - begin);
    if (std::isfinite(mean))
      corners.push_back({static_cast<double>(curve[begin].step + curve[end - 1].step) / 2, mean});
    begin = end;
  }
  return corners;
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

void draw_line(draw::Picture& picture, const std::vector<Corner>& corners, const Frame& frame, std::string_view kind) {
  std::vector<draw::Picture::Point> places;
  for (const auto& corner : corners)
    places.push_back({frame.x(corner.step), frame.y(corner.loss)});
  picture.curve(places, kind);
}

void draw_axes(draw::Picture& picture, const Frame& frame, const Curve& curve) {
  using Anchor = draw::Picture::Anchor;
  const auto tick = draw::tick_of(frame.most);
  for (double loss = 0; loss <= frame.most * 1.0001; loss += tick) {
    picture.line({left, frame.y(loss)}, {width - right, frame.y(loss)}, "grid");
    picture.text({left - 8, frame.y(loss) + 4}, "soft", Anchor::end, fmt::format("{:.4g}", loss));
  }
  // The number of epochs that are over, where one of them ends; few enough to be read.
  const auto epochs = curve.empty() ? 0 : curve.back().epoch - curve.front().epoch + 1;
  const auto rough = draw::tick_of(static_cast<double>(epochs + 1));
  const auto every = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rough));
  for (std::size_t i = 0; i < curve.size(); ++i)
    if ((i == 0 || curve[i].epoch != curve[i - 1].epoch) && (curve[i].epoch - 1) % every == 0)
      picture.text({frame.x(static_cast<double>(curve[i].step)), height - bottom + 20}, "soft", Anchor::middle,
                   std::to_string(curve[i].epoch - 1));
  picture.text({(left + width - right) / 2, height - 8}, "soft", Anchor::middle, "epoch");
}

/// "3,1,0.5"
std::optional<CurvePoint> parse_point(std::string_view line) {
  CurvePoint point;
  const auto* at = line.data();
  const auto* const end = at + line.size();
  const auto take = [&](auto& value, bool more) {
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || (more ? stop == end || *stop != ',' : stop != end))
      return false;
    at = stop + (more ? 1 : 0);
    return true;
  };
  if (!take(point.step, true) || !take(point.epoch, true) || !take(point.loss, false) || point.step == 0
      || point.epoch == 0 || std::isnan(point.loss))
    return std::nullopt;
  return point;
}

} // namespace

// -- the table -----------------------------------------------------------------------------------

std::string to_csv(const Curve& curve) {
  std::string text{head};
  for (const auto& point : curve)
    text += fmt::format("{},{},{}\n", point.step, point.epoch, point.loss);
  return text;
}

Result<ParsedCurve> parse_csv_curve(std::string_view text, std::string_view name) {
  if (!text.starts_with(head) && !head.starts_with(text))
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} is no loss curve: it does not begin with \"{}\"",
                                                               name, head.substr(0, head.size() - 1)));
  ParsedCurve parsed;
  auto rest = text.substr(std::min(head.size(), text.size()));
  for (std::size_t line = 2; !rest.empty(); ++line) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) {
      parsed.torn = true;
      break;
    }
    const auto point = parse_point(rest.substr(0, end));
    if (!point || (!parsed.curve.empty() && point->step <= parsed.curve.back().step))
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("{}: line {} is no next step, its epoch and its loss: \"{}\"", name, line,
                                         rest.substr(0, std::min(end, most_quoted))));
    parsed.curve.push_back(*point);
    rest.remove_prefix(end + 1);
  }
  return parsed;
}

Result<void> check_same_training(const Curve& earlier, std::uint64_t step, std::optional<double> loss,
                                 std::string_view name) {
  const auto last = std::find_if(earlier.begin(), earlier.end(), [&](const auto& point) { return point.step == step; });
  if (!loss || last == earlier.end() || last->loss == *loss || (!std::isfinite(last->loss) && !std::isfinite(*loss)))
    return {};
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("{} is the curve of another training: the loss of step {} is {} there, and {} in "
                                     "the checkpoint; move it away, or name another by --curve",
                                     name, step, last->loss, *loss));
}

Curve join_curves(Curve earlier, std::uint64_t step, const Curve& later) {
  std::erase_if(earlier, [&](const auto& point) { return point.step > step; });
  earlier.insert(earlier.end(), later.begin(), later.end());
  return earlier;
}

// -- the picture ---------------------------------------------------------------------------------

std::string to_svg(const Curve& curve, const std::string& title) {
  const auto together = [](std::uint64_t all) {
    return std::max<std::uint64_t>(1, (all + most_points - 1) / most_points);
  };
  const auto each = together(curve.size());
  const auto steps = means(curve, [&](std::size_t first, std::size_t at) { return at < first + each; });
  // The epochs that lie together in one corner are counted from the first one.
  const auto every = together(curve.empty() ? 0 : curve.back().epoch - curve.front().epoch + 1);
  const auto corner_of = [&](std::size_t at) { return (curve[at].epoch - curve.front().epoch) / every; };
  const auto epochs =
      means(curve, [&](std::size_t first, std::size_t at) { return corner_of(at) == corner_of(first); });
  // Either line may be the higher one: a corner of steps may be the mean of several epochs.
  double most = 0;
  for (const auto* corners : {&steps, &epochs})
    for (const auto& corner : *corners)
      most = std::max(most, corner.loss);
  const auto first = curve.empty() ? 0 : static_cast<double>(curve.front().step) - 1;
  const auto last = curve.empty() ? 1 : static_cast<double>(curve.back().step);
  const Frame frame{first, last, most > 0 ? most : 1};
  draw::Picture picture{width, height, left, title, light, dark};
  draw_axes(picture, frame, curve);
  draw_line(picture, steps, frame, "steps");
  draw_line(picture, epochs, frame, "epochs");
  return picture.finish();
}

} // namespace train

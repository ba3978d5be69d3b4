#include "curve_file.hpp"

#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace train {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// The points that a training has brought.
Curve curve_of(const Outcome& outcome) {
  Curve curve;
  for (std::size_t i = 0; i < outcome.losses.size(); ++i)
    if (!std::isnan(outcome.losses[i])) // told
      curve.push_back({outcome.first_step + i + 1, outcome.epochs[i], outcome.losses[i]});
  return curve;
}

Result<void> write_text(const std::filesystem::path& path, const std::string& text) {
  return nn::replace_file(path, {std::as_bytes(std::span{text})});
}

} // namespace

std::filesystem::path picture_of(const std::filesystem::path& curve) {
  auto picture = std::filesystem::path{curve}.replace_extension(".svg");
  if (picture == curve)
    picture += ".svg";
  return picture;
}

Result<CurveFile> CurveFile::open(CurvePlan plan) {
  CurveFile file{std::move(plan)};
  const auto& path = file.plan_.path;
  if (!file.plan_.resume || path.empty())
    return file;
  const auto bytes = nn::read_file(path);
  if (!bytes && bytes.error().code() == Errc::not_found)
    return file; // it begins here
  GPUACTORS_TRY(bytes);
  GPUACTORS_LET(parsed, parse_csv_curve({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path.string()));
  if (parsed.torn)
    fmt::print("{}: its last line was cut off and is left out\n", path.string());
  file.earlier_ = std::move(parsed.curve);
  return file;
}

Result<void> CurveFile::begins(const Status& first) const {
  const auto loss = first.has_last_loss() ? std::optional{first.last_loss()} : std::nullopt;
  // After an end that nobody could write it at; whether it is of this training cannot be told.
  if (!earlier_.empty() && earlier_.back().step < first.steps())
    fmt::print("{}: it ends at step {}, before the checkpoint's step {}: what is between is missing\n",
               plan_.path.string(), earlier_.back().step, first.steps());
  return check_same_training(earlier_, first.steps(), loss, plan_.path.string());
}

Result<void> CurveFile::write(const Outcome& outcome) {
  const auto& path = plan_.path;
  if (path.empty())
    return {};
  const auto curve = join_curves(std::move(earlier_), outcome.first_step, curve_of(outcome));
  GPUACTORS_TRY(write_text(path, to_csv(curve)));
  fmt::print("loss curve: {}\n", path.string());
  if (!plan_.plot)
    return {};
  const auto picture = picture_of(path);
  GPUACTORS_TRY(write_text(picture, to_svg(curve, plan_.title)));
  fmt::print("picture: {}\n", picture.string());
  return {};
}

} // namespace train

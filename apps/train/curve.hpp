// The loss of each step, as a table and as a picture, and the table of an earlier training that is gone on with.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// The loss of the batch that update `step` was made for, before it. Steps and epochs count from 1.
struct CurvePoint {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  double loss = 0;

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

/// A loss curve: points in the order of their steps; what is not known is left out. A plain value.
using Curve = std::vector<CurvePoint>;

/// "step,epoch,loss" and a line for each point, in the shortest form that reads back as the same numbers.
[[nodiscard]] std::string to_csv(const Curve& curve);

/// What `parse_csv_curve` has found.
struct ParsedCurve {
  Curve curve;
  /// The last line has no end, so that nobody knows what it was: it is left out.
  bool torn = false;
};

/// Reads what `to_csv` wrote. `name` is for errors.
/// @returns `invalid_argument` with the line that is no line of a curve.
gpuactors::Result<ParsedCurve> parse_csv_curve(std::string_view text, std::string_view name);

/// Whether a training that goes on after `step`, whose last loss was `loss` if it is known, goes on with this curve.
/// @returns `invalid_argument` when the curve says otherwise: it is of another training.
gpuactors::Result<void> check_same_training(const Curve& earlier, std::uint64_t step, std::optional<double> loss,
                                            std::string_view name);

/// The earlier points up to `step`, and the later ones.
[[nodiscard]] Curve join_curves(Curve earlier, std::uint64_t step, const Curve& later);

/// An SVG picture of it, with the mean of each epoch drawn over the single steps. Readable on light and dark pages.
[[nodiscard]] std::string to_svg(const Curve& curve, const std::string& title);

} // namespace train

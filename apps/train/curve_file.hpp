// The file of a loss curve: gone on with where a training goes on, and drawn beside it.
#pragma once

#include "curve.hpp"
#include "session.hpp"

#include <filesystem>
#include <string>

namespace train {

/// Where a curve goes. A plain value.
struct CurvePlan {
  /// Empty: nowhere.
  std::filesystem::path path;
  /// Go on with what is there.
  bool resume = false;
  /// Draw it too, under this title.
  bool plot = false;
  std::string title;
};

/// Where the picture of a curve goes: beside it, and never in its place. Pure.
[[nodiscard]] std::filesystem::path picture_of(const std::filesystem::path& curve);

/// Use: `open` before a training, `begins` when it is known where it begins, `write` after it.
class CurveFile {
public:
  /// Reads the curve that is gone on with; says so if its last line was cut off.
  /// @returns `invalid_argument` with the line that is none of a curve, `unavailable` when it cannot be read.
  static gpuactors::Result<CurveFile> open(CurvePlan plan);

  /// @returns `invalid_argument` when the curve that is there is of another training.
  [[nodiscard]] gpuactors::Result<void> begins(const Status& first) const;

  /// Writes all that is known, and says where. @returns `unavailable` with the system's words.
  gpuactors::Result<void> write(const Outcome& outcome);

private:
  explicit CurveFile(CurvePlan plan) : plan_(std::move(plan)) {
    // nop
  }

  CurvePlan plan_;
  Curve earlier_;
};

} // namespace train

// The loss of each step, as a table and as a picture.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace train {

/// A loss curve: the loss before each update, the first of which is update `first_step` + 1. A plain value.
struct Curve {
  std::uint64_t first_step = 0;
  std::uint64_t steps_per_epoch = 1;
  std::span<const double> losses;
};

/// "step,epoch,loss" and a line for each step whose loss is known, in the shortest form that reads back as the same
/// numbers.
[[nodiscard]] std::string to_csv(const Curve& curve);

/// An SVG picture of it, with the mean of each epoch drawn over the single steps. Readable on light and dark pages.
[[nodiscard]] std::string to_svg(const Curve& curve, const std::string& title);

/// Writes text to a file, in place of one of that name, in one moment.
/// @returns `unavailable` with the system's words.
gpuactors::Result<void> write_text(const std::filesystem::path& path, const std::string& text);

} // namespace train

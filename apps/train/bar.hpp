// How far a training is, on standard error: a bar that moves on a terminal, now and then a line elsewhere.
#pragma once

#include <gpuactors/base/clock.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

/// One thread at a time. At its end the line is complete.
class Bar {
public:
  /// `epochs` make it full.
  explicit Bar(std::uint64_t epochs);
  ~Bar();
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;

  /// `epochs` are over, with `part` of the next one; `rate` is in rows a second.
  void show(std::uint64_t epochs, double part, double loss, double rate);

  /// A line of its own, above the bar.
  void say(std::string_view text);

private:
  std::uint64_t epochs_;
  bool terminal_;
  bool shown_ = false;
  gpuactors::TimePoint next_;
};

/// "12,345 rows/s"
[[nodiscard]] std::string rate_text(double rate);

} // namespace train

#include "bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace train {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t cells = 30;
constexpr auto clear_line = "\r\x1b[K";
/// Pauses between two sights, on a terminal and elsewhere.
constexpr auto terminal_pause = 50ms;
constexpr auto line_pause = 2s;

} // namespace

std::string rate_text(double rate) {
  auto digits = std::to_string(std::llround(std::clamp(rate, 0.0, 1e15)));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits + " rows/s";
}

Bar::Bar(std::uint64_t epochs)
  : epochs_(epochs), terminal_(isatty(STDERR_FILENO) != 0), next_(gpuactors::Clock::now()) {
  if (!terminal_)
    next_ += line_pause;
}

Bar::~Bar() {
  if (shown_ && terminal_)
    fmt::print(stderr, "\n");
}

void Bar::show(std::uint64_t epochs, double part, double loss, double rate) {
  const bool last = epochs == epochs_;
  const auto now = gpuactors::Clock::now();
  if (now < next_ && !last)
    return;
  next_ = now + (terminal_ ? gpuactors::Duration{terminal_pause} : gpuactors::Duration{line_pause});
  const auto done = (static_cast<double>(epochs) + part) / static_cast<double>(std::max<std::uint64_t>(epochs_, 1));
  const auto full = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(cells));
  const auto text = fmt::format("epoch {}/{}  loss {:.6f}  {}", epochs, epochs_, loss, rate_text(rate));
  if (terminal_)
    fmt::print(stderr, "{}[{}{}] {}", clear_line, std::string(full, '='), std::string(cells - full, ' '), text);
  else
    fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
  shown_ = true;
}

void Bar::say(std::string_view text) {
  fmt::print(stderr, "{}{}\n", terminal_ && shown_ ? clear_line : "", text);
  std::fflush(stderr);
}

} // namespace train

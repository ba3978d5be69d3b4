#include <apps/llm/stop_texts.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace llm {

namespace {

/// How many bytes at the end of `text` begin `stop`.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (auto length = std::min(text.size(), stop.size() - 1); length > 0; --length)
    if (text.ends_with(stop.substr(0, length)))
      return length;
  return 0;
}

} // namespace

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {
  // nop
}

StopTexts::Passed StopTexts::take(std::string_view piece) {
  held_ += piece;
  auto end = std::string::npos;
  for (const auto& stop : stops_)
    end = std::min(end, held_.find(stop));
  if (end != std::string::npos)
    return {held_.substr(0, end), true};
  std::size_t kept = 0;
  for (const auto& stop : stops_)
    kept = std::max(kept, begun(held_, stop));
  Passed passed{held_.substr(0, held_.size() - kept)};
  held_.erase(0, passed.text.size());
  return passed;
}

std::string StopTexts::rest() && {
  return std::move(held_);
}

} // namespace llm

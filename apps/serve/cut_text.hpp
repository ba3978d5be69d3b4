// Names and sentences of clients, cut where they are too long to be repeated.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace serve {

/// The text, or its first `most` bytes and "..." behind them. No character of UTF-8 is cut in two: what comes after it
/// would be no text any more, which gRPC's clients refuse to read.
[[nodiscard]] inline std::string cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most)
    return std::string{text};
  auto end = most;
  // A character has at most three bytes behind its first one.
  for (int i = 0; i < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80; ++i)
    --end;
  return std::string{text.substr(0, end)} + "...";
}

} // namespace serve

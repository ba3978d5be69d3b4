// Names and sentences of clients, cut where they are too long to be repeated.
#pragma once

#include <gpuactors/base/utf8.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace serve {

/// Bytes of a sentence about an error, in whatever it is sent: trailers have little room, and a client's own words may
/// be in it, which would count in no limit of what answers have.
inline constexpr std::size_t longest_sentence = 1'024;

/// The text, or its first `most` bytes and "..." behind them. No character of UTF-8 is cut in two: what comes after it
/// would be no text any more, which gRPC's clients refuse to read.
[[nodiscard]] inline std::string cut_text(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string{text} : std::string{gpuactors::head_of(text, most)} + "...";
}

} // namespace serve

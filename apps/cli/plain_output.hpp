// Text of other people's programs on a terminal, which obeys control characters.
#pragma once

#include <memory>
#include <streambuf>
#include <string>
#include <string_view>

namespace gpuactors::cli {

/// Returns `text` with each control character in it as JSON would write it, "\u001b", and with U+FFFD for what is not
/// UTF-8. Tabs and line feeds stay, and so do colours (ESC [ numbers m), which end with their line. JSON says the same
/// as before. Pure.
[[nodiscard]] std::string plain_text(std::string_view text);

/// While it lives, all that is written to std::cout passes `plain_text`, line by line. Any number of threads may write.
class PlainOutput {
public:
  PlainOutput();
  PlainOutput(const PlainOutput&) = delete;
  PlainOutput& operator=(const PlainOutput&) = delete;
  ~PlainOutput();

private:
  std::streambuf* const before_;
  const std::unique_ptr<std::streambuf> plain_;
};

} // namespace gpuactors::cli

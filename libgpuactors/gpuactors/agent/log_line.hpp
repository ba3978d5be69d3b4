// One line of what a worker wrote, and how it looks in a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors {

/// When a line was read, by the wall clock of the node.
using LogTime = std::chrono::system_clock::time_point;

/// Which of its two outputs a process wrote to.
enum class OutputStream : std::uint8_t {
  out,
  err,
};

/// "stdout" or "stderr".
[[nodiscard]] std::string_view to_string(OutputStream stream) noexcept;

/// A line that a process wrote.
struct LogLine {
  LogTime time;
  /// The node's name.
  std::string node;
  /// Who wrote it: the name of a worker or an actor.
  std::string source;
  OutputStream stream = OutputStream::out;
  std::string text;

  friend bool operator==(const LogLine&, const LogLine&) = default;
};

/// Renders time (UTC, to the microsecond), node, source, stream and text with tabs between:
/// "2026-11-21T09:41:01.000250Z node1 worker-3 stderr out of memory". Line breaks, and tabs before the text, become
/// spaces; what is not UTF-8 becomes U+FFFD. Any thread.
[[nodiscard]] std::string to_string(const LogLine& line);

/// Reads what `to_string` renders; nothing when it is something else. Any thread.
[[nodiscard]] std::optional<LogLine> parse_log_line(std::string_view text);

} // namespace gpuactors

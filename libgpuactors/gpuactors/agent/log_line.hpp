// LogLine: one line of a worker's output, and its format in log files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuactors {

/// When the agent read a line, by the node's wall clock.
using LogTime = std::chrono::system_clock::time_point;

/// The output that a process wrote to.
enum class OutputStream : std::uint8_t {
  out,
  err,
};

/// Returns "stdout" or "stderr".
[[nodiscard]] std::string_view to_string(OutputStream stream) noexcept;

/// A line of a process's output.
struct LogLine {
  LogTime time;
  /// The node's name.
  std::string node;
  /// The writer: see `LogSource`.
  std::string source;
  OutputStream stream = OutputStream::out;
  std::string text;

  friend bool operator==(const LogLine&, const LogLine&) = default;
};

/// Renders time (UTC, to the microsecond), node, source, stream and text with tabs between:
/// "2026-11-21T09:41:01.000250Z node1 worker-3 stderr out of memory". Line breaks, and tabs in the fields before the
/// text, become spaces; invalid UTF-8 becomes U+FFFD. Any thread.
[[nodiscard]] std::string to_string(const LogLine& line);

/// Parses the output of `to_string`; nothing for any other text. Any thread.
[[nodiscard]] std::optional<LogLine> parse_log_line(std::string_view text);

} // namespace gpuactors

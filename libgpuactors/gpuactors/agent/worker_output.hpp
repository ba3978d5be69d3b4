// Marks each line of a worker's output with its holder: several actors share a process and its output.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <streambuf>
#include <string_view>

namespace gpuactors {

/// Writes whole lines to a file, each with a mark in front that names the holder of the thread that wrote it
/// (`set_output_holder`). Each thread has its own line buffer, so that lines of threads never mix; an unfinished line
/// is written when the thread ends or works for another holder. Flushing does not write incomplete lines. A line is cut
/// a little before `limits::log_line_bytes`, so that the line with its mark fits a reader with that bound.
///
/// Any thread; the call that completes a line returns after the line is written.
class MarkedBuffer : public std::streambuf {
public:
  /// @param file a descriptor that must stay open as long as any thread writes. Buffers of one file share their lines.
  explicit MarkedBuffer(int file) : file_(file) {
    // nop
  }

protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

private:
  int file_;
};

/// Puts marked buffers behind std::cout, std::cerr and std::clog, and makes C's stdout line-buffered, for the rest of
/// the process. Call before other threads write.
void mark_worker_output();

/// A line without its mark.
struct MarkedLine {
  /// The holder's lease; null when the line has no mark, or was written outside of any holder.
  LeaseId holder;
  std::string_view text;
};

/// Splits a worker's line into mark and text; a line without a mark is all text.
[[nodiscard]] MarkedLine split_mark(std::string_view line) noexcept;

} // namespace gpuactors

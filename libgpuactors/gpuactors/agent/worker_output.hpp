// Lines of a worker process that say whose they are: several actors share a process, and its output.
#pragma once

#include <gpuactors/base/ids.hpp>

#include <streambuf>
#include <string_view>

namespace gpuactors {

/// Writes whole lines to a file, each with a mark in front that names the holder of the thread that wrote it
/// (`set_output_holder`). Each thread has its own line, so that two of them never mix theirs; what a thread leaves
/// without an end is written when the thread ends or works for another holder. Flushing writes no half lines. A line is
/// cut a little before `limits::log_line_bytes`, so that a reader with that bound finds the mark.
///
/// Any thread; a line is written before the call that ends it returns.
class MarkedBuffer : public std::streambuf {
public:
  /// @param file its descriptor, which stays open longer than any thread writes. Buffers of one file share their lines.
  explicit MarkedBuffer(int file) : file_(file) {
    // nop
  }

protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

private:
  int file_;
};

/// Puts marked buffers behind std::cout, std::cerr and std::clog, and has C's standard output write line by line. For
/// the rest of the process; before other threads write.
void mark_worker_output();

/// A line without its mark.
struct MarkedLine {
  /// Empty when the line has no mark, or one of nobody's.
  LeaseId holder;
  std::string_view text;
};

/// Takes the mark off a line that a worker wrote. What has none is the line itself.
[[nodiscard]] MarkedLine split_mark(std::string_view line) noexcept;

} // namespace gpuactors

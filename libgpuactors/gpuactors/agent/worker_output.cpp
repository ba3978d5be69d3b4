#include "detail/line_cutter.hpp"

#include <gpuactors/agent/worker_output.hpp>
#include <gpuactors/base/files.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/output_holder.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <deque>
#include <iostream>
#include <mutex>

namespace gpuactors {

namespace {

// Encloses the lease number in a mark: ASCII "record separator".
constexpr char sign = '\x1E';

// Room for the mark, and for the words that say how much of a long line is missing.
constexpr std::size_t spare_bytes = 64;

std::mutex& write_mutex() {
  // Never destroyed: threads may write until the process ends.
  static auto* mutex = new std::mutex;
  return *mutex;
}

/// The unfinished line of a thread in one file.
struct OpenLine {
  int file;
  LeaseId holder;
  detail::LineCutter cutter{limits::log_line_bytes - spare_bytes};

  explicit OpenLine(int number) : file(number) {
    // nop
  }

  [[nodiscard]] detail::LineCutter::Sink sink() const {
    return [this](std::string_view text) {
      const auto line = fmt::format("{}{}{}{}\n", sign, holder.value(), sign, text);
      const std::lock_guard lock{write_mutex()};
      // A failed write cannot be reported anywhere.
      [[maybe_unused]] const bool done = detail::write_all(file, line);
    };
  }

  void add(std::string_view text) {
    if (const auto now = output_holder(); now != holder) {
      cutter.finish(sink());
      holder = now;
    }
    cutter.feed(text, sink());
  }
};

// Set once the thread's `OpenLines` is destroyed: destructors may still write while the thread ends.
thread_local bool thread_ends = false;

/// The unfinished lines of a thread, one for each file that it has written to.
class OpenLines {
public:
  OpenLines() = default;
  OpenLines(const OpenLines&) = delete;
  OpenLines& operator=(const OpenLines&) = delete;

  ~OpenLines() {
    for (auto& line : lines_)
      line.cutter.finish(line.sink());
    thread_ends = true;
  }

  OpenLine& of(int file) {
    for (auto& line : lines_)
      if (line.file == file)
        return line;
    return lines_.emplace_back(file);
  }

private:
  std::deque<OpenLine> lines_;
};

thread_local OpenLines lines_of_thread;

} // namespace

MarkedBuffer::int_type MarkedBuffer::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) {
    const char byte = traits_type::to_char_type(c);
    xsputn(&byte, 1);
  }
  return traits_type::not_eof(c);
}

std::streamsize MarkedBuffer::xsputn(const char* text, std::streamsize size) {
  const std::string_view view{text, static_cast<std::size_t>(size)};
  if (thread_ends)
    return detail::write_all(file_, view) ? size : 0;
  lines_of_thread.of(file_).add(view);
  return size;
}

void mark_worker_output() {
  // Never destroyed, for the same reason as `write_mutex`.
  static auto* const out = new MarkedBuffer{STDOUT_FILENO};
  static auto* const err = new MarkedBuffer{STDERR_FILENO};
  std::cout.flush();
  std::cout.rdbuf(out);
  std::cerr.rdbuf(err);
  std::clog.rdbuf(err);
  // By default stdout is fully buffered when it is a pipe, and buffered output is lost if the process is killed.
  static_cast<void>(std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ));
}

MarkedLine split_mark(std::string_view line) noexcept {
  if (line.empty() || line.front() != sign)
    return {LeaseId{}, line};
  std::uint64_t lease = 0;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + 1, end, lease);
  if (error != std::errc{} || rest == end || *rest != sign)
    return {LeaseId{}, line};
  return {LeaseId{lease}, line.substr(static_cast<std::size_t>(rest + 1 - line.data()))};
}

} // namespace gpuactors

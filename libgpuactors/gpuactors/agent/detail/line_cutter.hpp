// Lines of text out of bytes as they come from a pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpuactors::detail {

/// Cuts a stream of bytes into lines, in bounded memory. One thread.
class LineCutter {
public:
  using Sink = std::function<void(std::string_view)>;

  /// Keeps the first `most` bytes of a line, at least 4; what is left out is counted, and said at the line's end.
  explicit LineCutter(std::size_t most);

  /// Hands each line that ends in `bytes` to `sink`, as UTF-8, without its end ("\n" or "\r\n").
  void feed(std::string_view bytes, const Sink& sink);

  /// Hands over a last line without an end, if there is one.
  void finish(const Sink& sink);

private:
  void add(std::string_view bytes);
  void hand_over(const Sink& sink);

  std::size_t most_;
  std::string line_;
  std::uint64_t left_out_ = 0;
};

} // namespace gpuactors::detail

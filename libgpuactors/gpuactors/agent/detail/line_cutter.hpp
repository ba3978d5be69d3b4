// LineCutter: cuts the bytes of a pipe into lines of text.
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

  /// Keeps the first `most` bytes of a line; `most` is at least 4. The end of a cut line says how many bytes are left
  /// out.
  explicit LineCutter(std::size_t most);

  /// Passes each line that ends in `bytes` to `sink`, as UTF-8, without its end ("\n" or "\r\n").
  void feed(std::string_view bytes, const Sink& sink);

  /// Passes an unterminated last line to `sink`, if there is one.
  void finish(const Sink& sink);

private:
  void add(std::string_view bytes);
  void hand_over(const Sink& sink);

  std::size_t most_;
  std::string line_;
  std::uint64_t left_out_ = 0;
};

} // namespace gpuactors::detail

// ByteReader: reads numbers and texts from untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuactors {

/// Reads from the front and consumes what it reads. Beyond the end, it returns zeros and empty texts, and `is_short`
/// returns true.
class ByteReader {
public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {
    // nop
  }

  /// Takes a number of `bytes` bytes, most significant first.
  std::uint32_t take_number(int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value = value << 8U | byte();
    return value;
  }

  /// Takes a number of seven bits per byte, least significant first; the highest bit of a byte says that more follow.
  std::uint32_t take_size() {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 7) {
      const auto next = byte();
      value |= (next & 0x7FU) << shift;
      if (next < 0x80U)
        break;
    }
    return value;
  }

  std::string_view take_text(std::size_t bytes) {
    is_short_ = is_short_ || bytes > rest_.size();
    const auto text = is_short_ ? std::string_view{} : rest_.substr(0, bytes);
    rest_.remove_prefix(text.size());
    return text;
  }

  /// What nobody has taken yet.
  [[nodiscard]] std::string_view rest() const noexcept {
    return rest_;
  }

  [[nodiscard]] bool is_short() const noexcept {
    return is_short_;
  }

private:
  std::uint32_t byte() {
    const auto next = take_text(1);
    return next.empty() ? 0U : static_cast<unsigned char>(next.front());
  }

  std::string_view rest_;
  bool is_short_ = false;
};

} // namespace gpuactors

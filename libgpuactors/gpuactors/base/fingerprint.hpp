// Fingerprint: tells whether two processes have the same bytes, without moving them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpuactors {

/// A hash (FNV-1a, 64 bits) of all added bytes in order, the same on every machine. Detects accidental changes, not
/// malicious ones. One thread.
class Fingerprint {
public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const auto byte : bytes)
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  }

  void add(std::string_view text) noexcept {
    add(std::as_bytes(std::span{text}));
  }

  /// Returns 16 hexadecimal digits.
  [[nodiscard]] std::string to_string() const {
    return fmt::format("{:016x}", hash_);
  }

private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

} // namespace gpuactors

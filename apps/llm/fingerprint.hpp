// Fingerprint: tells whether two replicas have loaded the same model.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace llm {

/// A hash (FNV-1a) of all that was added, in its order: to notice files that were changed by mistake, not by malice.
class Fingerprint {
public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const auto byte : bytes)
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  }

  void add(std::string_view text) noexcept {
    add(std::as_bytes(std::span{text}));
  }

  [[nodiscard]] std::string to_string() const {
    return fmt::format("{:016x}", hash_);
  }

private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

} // namespace llm

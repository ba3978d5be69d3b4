// TextRoom: counts a text while it is written.
#pragma once

#include <apps/serve/protocol/held_bytes.hpp>

#include <cstddef>
#include <string>

namespace serve {

/// Lets a share grow with a text, so that one that becomes too large is given up in the middle. One thread at a time.
class TextRoom {
public:
  /// The share must outlive it; its owner settles it when the text is there.
  explicit TextRoom(HeldShare& share) : share_(share) {
    // nop
  }

  /// Whether the text may go on. To be asked behind each piece of it.
  [[nodiscard]] bool fits(const std::string& text) noexcept {
    if (text.capacity() <= counted_)
      return true;
    counted_ = text.capacity();
    return share_.grow_to(counted_);
  }

private:
  HeldShare& share_;
  /// What is small is counted by those who send it.
  std::size_t counted_ = 64U << 10;
};

} // namespace serve

// What a rendering may use up, so that no template and no message makes it endless.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace llm::chat {

using gpuactors::Errc;
using gpuactors::Result;

/// What a template does that is wrong in Jinja too.
[[nodiscard]] gpuactors::Failure wrong(std::string what);
/// What this library does not know how to do.
[[nodiscard]] gpuactors::Failure unknown(std::string what);

class Budget {
public:
  /// @param bytes of all values that are made, together.
  Budget(std::uint64_t steps, std::uint64_t bytes)
    : steps_(steps), bytes_(bytes), steps_left_(steps), bytes_left_(bytes) {
    // nop
  }

  Result<void> step(std::uint64_t count = 1) {
    if (count > steps_left_)
      return too_many_steps();
    steps_left_ -= count;
    return {};
  }

  /// Takes bytes that are made, and steps for the time it takes.
  Result<void> take(std::uint64_t bytes);

  /// Takes steps for bytes that are only looked at.
  Result<void> look(std::uint64_t bytes) {
    return step(bytes / 64);
  }

  /// Takes steps for bytes that are gone through character by character, which takes longer.
  Result<void> read(std::uint64_t bytes) {
    return step(bytes / 8);
  }

private:
  [[nodiscard]] Result<void> too_many_steps() const;

  std::uint64_t steps_;
  std::uint64_t bytes_;
  std::uint64_t steps_left_;
  std::uint64_t bytes_left_;
};

/// Text that grows within a budget.
class Writer {
public:
  explicit Writer(Budget& budget) : budget_(&budget) {
    // nop
  }

  Result<void> add(std::string_view text) {
    if (auto taken = budget_->take(text.size()); !taken)
      return taken;
    text_ += text;
    return {};
  }

  Result<void> add(char byte) {
    return add(std::string_view{&byte, 1});
  }

  [[nodiscard]] Budget& budget() const {
    return *budget_;
  }

  [[nodiscard]] const std::string& text() const {
    return text_;
  }

  [[nodiscard]] std::string release() {
    return std::move(text_);
  }

private:
  Budget* budget_;
  std::string text_;
};

} // namespace llm::chat

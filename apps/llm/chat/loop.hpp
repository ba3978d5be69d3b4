// The variable `loop`, and what a loop goes through.
#pragma once

#include <apps/llm/chat/value.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace llm::chat {

/// Goes through values for a loop, and looks ahead when it is asked for what comes.
class Loop {
public:
  /// @param length where it is known before.
  Loop(std::shared_ptr<Iterator> iterator, std::optional<std::int64_t> length)
    : iterator_(std::move(iterator)), length_(length) {
    // nop
  }

  /// Sets `value` to the next one. @returns whether there is one.
  Result<bool> next(Budget& budget, Value& value);

  /// loop.name; of those that is_loop_attribute knows and that are no methods.
  Result<Value> attribute(Budget& budget, std::string_view name);

  /// loop.cycle(...)
  Result<Value> cycle(const std::vector<Value>& values) const;

  /// loop.changed(...)
  Result<Value> changed(Budget& budget, const std::vector<Value>& values);

private:
  Result<std::optional<Value>> look_ahead(Budget& budget);
  Result<std::int64_t> length(Budget& budget);

  std::shared_ptr<Iterator> iterator_;
  std::optional<std::int64_t> length_;
  std::int64_t index0_ = -1;
  /// What was taken from the iterator already, and comes next.
  std::vector<Value> ahead_;
  std::size_t taken_ = 0;
  std::optional<Value> now_;
  std::optional<Value> before_;
  std::optional<std::vector<Value>> told_;
};

} // namespace llm::chat

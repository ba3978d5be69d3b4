// Mark: a point in the order of a stream.
#pragma once

#include <memory>
#include <utility>

namespace gpuactors {

namespace detail {
struct MarkState;
} // namespace detail

/// A point in the order of a stream that other work on the device can wait for. Copyable; any thread. It may outlive
/// the context of its stream, and keeps nothing of it alive.
class Mark {
public:
  Mark() = default;

  explicit operator bool() const noexcept {
    return state_ != nullptr;
  }

private:
  friend class Stream;
  explicit Mark(std::shared_ptr<detail::MarkState> state) : state_(std::move(state)) {
    // nop
  }

  std::shared_ptr<detail::MarkState> state_;
};

} // namespace gpuactors

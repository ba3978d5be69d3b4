// Graph: work of a stream that is captured once and launched often, like a CUDA graph.
#pragma once

#include <gpuactors/device/backend.hpp>

#include <cstddef>
#include <memory>

namespace gpuactors {

namespace detail {
struct Ground;
} // namespace detail

/// Work that `Stream::capture` has captured. Cheap to copy; any thread may hold and destroy a copy, even while the work
/// runs or after the end of its context, which a graph does not keep alive.
class Graph {
public:
  Graph() = default;

  explicit operator bool() const noexcept {
    return captured_ != nullptr;
  }

  /// Returns the number of launches, products, copies and fills, as the device counts them: a product may count as
  /// several. 0 for an empty graph.
  [[nodiscard]] std::size_t operations() const noexcept {
    return captured_ != nullptr ? captured_->operations() : 0;
  }

private:
  friend class Stream;
  Graph(std::weak_ptr<detail::Ground> ground, std::shared_ptr<BackendGraph> captured)
    : ground_(std::move(ground)), captured_(std::move(captured)) {
    // nop
  }

  [[nodiscard]] bool is_of(const std::shared_ptr<detail::Ground>& ground) const noexcept {
    return !ground_.owner_before(ground) && !ground.owner_before(ground_);
  }

  std::weak_ptr<detail::Ground> ground_;
  std::shared_ptr<BackendGraph> captured_;
};

} // namespace gpuactors

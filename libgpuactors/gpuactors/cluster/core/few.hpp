// Few: a list that nearly always has at most one element.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// The first element needs no allocation. May grow while it is walked by index.
template <class T>
class Few {
public:
  void push_back(T&& value) {
    if (!first_)
      first_.emplace(std::move(value));
    else
      rest_.push_back(std::move(value));
  }

  [[nodiscard]] bool empty() const noexcept {
    return !first_;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    return first_ ? 1 + rest_.size() : 0;
  }

  [[nodiscard]] T& operator[](std::size_t at) noexcept {
    return at == 0 ? *first_ : rest_[at - 1];
  }

  [[nodiscard]] const T& operator[](std::size_t at) const noexcept {
    return at == 0 ? *first_ : rest_[at - 1];
  }

private:
  std::optional<T> first_;
  std::vector<T> rest_;
};

} // namespace gpuactors::detail

// Budget: how much may wait for those who do not take what they have asked for. Internal to the layer.
#pragma once

#include <gpuactors/base/limits.hpp>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace gpuactors::transport {

/// Bytes that wait for several peers. Together they may have `all`; beyond that, connections are given up of every name
/// for whose connections more than `one` wait together: many that are modest are as greedy as one. Any thread.
class Budget {
public:
  /// What waits for the connections of one name.
  class Part {
  public:
    explicit Part(std::shared_ptr<Budget> whole) : whole_(std::move(whole)) {
      // nop
    }

    /// @param more modulo 2^64: it may be less.
    void add(std::size_t more) noexcept {
      waiting_ += more;
      whole_->waiting += more;
    }

    [[nodiscard]] bool is_overdrawn() const noexcept {
      return waiting_ > whole_->one && whole_->waiting > whole_->all;
    }

  private:
    const std::shared_ptr<Budget> whole_;
    std::atomic<std::size_t> waiting_{0};
  };

  /// Returns the part that all connections of this name have in common.
  static std::shared_ptr<Part> part_of(const std::shared_ptr<Budget>& budget, const std::string& name) {
    const std::lock_guard lock{budget->mutex_};
    std::erase_if(budget->parts_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = budget->parts_[name];
    auto part = known.lock();
    if (part == nullptr) {
      part = std::make_shared<Part>(budget);
      known = part;
    }
    return part;
  }

  std::size_t one = limits::client_waiting_bytes;
  std::size_t all = limits::clients_waiting_bytes;
  std::atomic<std::size_t> waiting{0};

private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Part>> parts_;
};

} // namespace gpuactors::transport

// A store of the broker's state in memory, which outlives the brokers of a test.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/broker/core/desired_state.hpp>

#include <map>
#include <optional>
#include <utility>

namespace broker_test {

/// What is committed is there over restarts.
class MemoryStore : public gpuactors::DesiredState {
public:
  void put(gpuactors::StateSection section, gpuactors::StateKey key, std::string value) override {
    pending_[{section, std::move(key)}] = std::move(value);
  }

  void erase(gpuactors::StateSection section, gpuactors::StateKey key) override {
    pending_[{section, std::move(key)}] = std::nullopt;
  }

  gpuactors::Result<void> commit() override {
    if (is_full)
      return gpuactors::fail(gpuactors::Errc::unavailable, "the disk is full");
    for (auto& [key, value] : pending_) {
      if (value)
        kept_[key] = std::move(*value);
      else
        kept_.erase(key);
    }
    pending_.clear();
    return {};
  }

  gpuactors::Result<std::vector<gpuactors::StateEntry>> load(gpuactors::StateSection section) const override {
    std::vector<gpuactors::StateEntry> result;
    for (const auto& [key, value] : kept_)
      if (key.first == section)
        result.push_back({key.second, value});
    return result;
  }

  /// Nothing can be written.
  bool is_full = false;

  void lose_pending() {
    pending_.clear();
  }

private:
  std::map<std::pair<gpuactors::StateSection, gpuactors::StateKey>, std::optional<std::string>> pending_;
  std::map<std::pair<gpuactors::StateSection, gpuactors::StateKey>, std::string> kept_;
};

} // namespace broker_test

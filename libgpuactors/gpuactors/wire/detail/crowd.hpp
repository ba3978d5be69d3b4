// Crowd: how many connections a process has, and whose. Internal to the layer.
#pragma once

#include <gpuactors/base/caller.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace gpuactors::detail {

/// Places for connections. Clients leave a quarter of them to those who serve, and those of one name take a quarter at
/// most. Any thread.
class Crowd {
public:
  explicit Crowd(std::size_t places) : places_(places) {
    // nop
  }

  /// Takes a place. @returns whether there is one.
  [[nodiscard]] bool enter(const Caller& caller) {
    const std::lock_guard lock{mutex_};
    if (taken_ >= places_)
      return false;
    if (!caller.administers) {
      const auto same = of_clients_.find(caller.name);
      if ((same != of_clients_.end() && same->second >= most_of_one()) || clients_ >= places_ - places_ / 4)
        return false;
      ++of_clients_[caller.name];
      ++clients_;
    }
    ++taken_;
    return true;
  }

  /// Gives a place back that was taken.
  void leave(const Caller& caller) {
    const std::lock_guard lock{mutex_};
    --taken_;
    if (caller.administers)
      return;
    --clients_;
    if (const auto same = of_clients_.find(caller.name); --same->second == 0)
      of_clients_.erase(same);
  }

  [[nodiscard]] std::size_t most_of_one() const noexcept {
    return places_ / 4;
  }

private:
  const std::size_t places_;
  std::mutex mutex_;
  std::size_t taken_ = 0;
  std::size_t clients_ = 0;
  std::map<std::string, std::size_t, std::less<>> of_clients_;
};

} // namespace gpuactors::detail

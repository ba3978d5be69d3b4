// Renewal: looks now and then whether files have changed, and has them read again.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace serve {

/// Watches files on a thread of its own until its end.
class Renewal {
public:
  /// Files that belong together, and what is called, on that thread, when one of them is another one than before.
  struct Watched {
    std::vector<std::filesystem::path> files;
    std::function<void()> changed;
  };

  /// @returns `unavailable` if there is no thread for it.
  [[nodiscard]] static gpuactors::Result<std::unique_ptr<Renewal>> start(std::vector<Watched> watched,
                                                                         gpuactors::Duration period);

  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;
  ~Renewal();

private:
  /// What tells a file from the one that was there before; all zero if there is none.
  struct Stamp {
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;

    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  Renewal(std::vector<Watched> watched, gpuactors::Duration period);
  static Stamp stamp_of(const std::filesystem::path& file);
  static std::vector<Stamp> stamps_of(const Watched& watched);
  void watch();

  const std::vector<Watched> watched_;
  const gpuactors::Duration period_;
  std::vector<std::vector<Stamp>> known_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace serve

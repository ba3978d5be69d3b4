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
#include <string>
#include <thread>
#include <vector>

namespace serve {

/// Watches files on a thread of its own until its end.
class Renewal {
public:
  /// What tells files from those that were there before; all zero for one that is not there.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    /// Of the last change of contents, owner or rights, in nanoseconds.
    std::int64_t changed_ns = 0;

    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Stamps = std::vector<Stamp>;

  /// Files that belong together.
  struct Watched {
    std::vector<std::filesystem::path> files;
    /// Of the files that were read last, taken before.
    Stamps known;
    /// Called on the thread when one of them is another one. @returns whether they could be read; it is called again
    /// otherwise.
    std::function<bool()> changed;
  };

  [[nodiscard]] static Stamps stamps_of(const std::vector<std::filesystem::path>& files);

  /// Files that are read by `renew`, which returns a sentence. `notice` is told of that, and of what cannot be used
  /// once, since what was read before stays in use.
  [[nodiscard]] static Watched watched(std::vector<std::filesystem::path> files, Stamps known,
                                       std::function<gpuactors::Result<std::string>()> renew,
                                       std::function<void(const std::string&)> notice);

  /// @returns `unavailable` if there is no thread for it.
  [[nodiscard]] static gpuactors::Result<std::unique_ptr<Renewal>> start(std::vector<Watched> watched,
                                                                         gpuactors::Duration period);

  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;
  ~Renewal();

private:
  Renewal(std::vector<Watched> watched, gpuactors::Duration period);
  void watch();

  std::vector<Watched> watched_;
  const gpuactors::Duration period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace serve
